module msgstore

go 1.23
