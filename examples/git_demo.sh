#!/bin/sh
# git in the current folder: init, two commits on a branch, merge, log, a clone.
#
#     nsbox run --ro examples/git_demo.sh:/src/git_demo.sh -- sh /src/git_demo.sh
set -eu

export GIT_AUTHOR_NAME=Box GIT_AUTHOR_EMAIL=box@example.org
export GIT_COMMITTER_NAME=Box GIT_COMMITTER_EMAIL=box@example.org
export GIT_AUTHOR_DATE="2024-01-01T00:00:00Z" GIT_COMMITTER_DATE="2024-01-01T00:00:00Z"
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat

git init -q -b main demo
cd demo
echo "one" >file.txt
git add file.txt
git commit -q -m "first"
git switch -q -c topic
echo "two" >>file.txt
git commit -q -a -m "second"
git switch -q main
git merge -q --no-edit --ff-only topic
git log --format='%h %an %s'
git status --short --branch
cd ..
git clone -q demo copy
diff -r demo/file.txt copy/file.txt && echo "the clone is equal"
rm -rf demo copy
