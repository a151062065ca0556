package planted

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"planted/gen/db"
)

func unchecked(file *os.File) {
	file.Sync() // want errcheck
	defer file.Close()
	fmt.Fprintln(file)
	file.Sync() //nolint:errcheck // said here
}

func ineffective() int {
	one := 1 // want ineffassign
	one = 2
	return one
}

func wasted(ask bool) (one int) {
	if ask {
		one = 1
		fmt.Println(one)
		one = 2 // want wastedassign
	}
	return 0
}

func body(client *http.Client) (int, error) {
	res, err := client.Get("http://localhost") // want bodyclose
	if err != nil {
		return 0, err
	}
	return res.StatusCode, nil
}

func swallowed(err error) error {
	if err != nil {
		return nil // want nilerr
	}
	return nil
}

func compared(err error) bool {
	return err == io.ErrClosedPipe // want errorlint
}

func critic(in string) string {
	switch { // want gocritic
	case in == "a":
		return "b"
	}
	return in
}

func rows(db *sql.DB) error {
	found, err := db.Query("SELECT 1") // want sqlrowserr
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
	}
	return nil
}

func converted(in string) string { return string(in) } // want unconvert

// seperate is spelled otherwise. // want misspell
func misspelled() error { return errors.New("x") }

func printed() { fmt.Printf("%d\n", "one") } // want printf

func simple(in []string) bool {
	if strings.Index(in[0], "x") != -1 { // want S1003
		return true
	}
	return false
}

func static(in int) int {
	if in == in { // want SA4000
		return 1
	}
	return 0
}

func dead() {} // want unused

func row() db.RowEntry { return db.RowEntry{One: "x"} } // want whole

var _ = []any{row, unchecked, ineffective, wasted, body, swallowed, compared, critic, rows, converted, misspelled, printed, simple, static}
