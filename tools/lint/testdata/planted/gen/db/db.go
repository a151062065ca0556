package db

type RowEntry struct{ One, Two string }
