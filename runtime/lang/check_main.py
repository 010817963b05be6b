

# The tier static: report, and that is all.
with open(SOURCE, 'rb') as source_file:
    send_report(*examine(source_file.read())[:3])
