"""A database file in the current folder: tables, a transaction rolled back, a window query.

    nsbox code examples/sqlite_demo.py
"""

import os
import sqlite3

ORDERS = [("ann", "lamp", 2, 1990), ("bob", "desk", 1, 24950), ("ann", "chair", 4, 8900),
          ("eve", "lamp", 10, 1850), ("bob", "lamp", 1, 1990), ("eve", "chair", 2, 8500)]


def main():
    path = "orders.db"
    if os.path.exists(path):
        os.remove(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript("""
        CREATE TABLE orders (id INTEGER PRIMARY KEY, who TEXT NOT NULL, what TEXT NOT NULL,
                             units INTEGER CHECK (units > 0), cents INTEGER NOT NULL);
        CREATE INDEX by_who ON orders (who);
    """)
    with db:
        db.executemany("INSERT INTO orders (who, what, units, cents) VALUES (?, ?, ?, ?)", ORDERS)
    try:
        with db:
            db.execute("INSERT INTO orders (who, what, units, cents) VALUES ('mal', 'desk', 1, 1)")
            db.execute("INSERT INTO orders (who, what, units, cents) VALUES ('mal', 'desk', -1, 1)")
    except sqlite3.IntegrityError as error:
        print("rolled back:", error)

    rows = db.execute("""
        SELECT who, what, units * cents / 100.0 AS total,
               rank() OVER (PARTITION BY who ORDER BY units * cents DESC) AS place
        FROM orders ORDER BY who, place
    """)
    for who, what, total, place in rows:
        print(f"{who:<5}{place} {what:<6}{total:>9.2f}")
    print("orders:", db.execute("SELECT count(*) FROM orders").fetchone()[0])
    db.close()
    os.remove(path)


if __name__ == "__main__":
    main()
