// Package sqltext reads statements of which parts are chosen at run time, so that all of
// their text stands in .sql files. With the parts that the file has in the holes each is a
// statement that PostgreSQL prepares, which tests do (sqltexttest). For what sqlc can compile there
// is sql/queries.
//
//	-- name: ByDomain
//	SELECT FROM organizations t WHERE /*[*/ EXISTS (SELECT FROM domains d
//	    WHERE d.org_id = t.id AND /*:condition*/ true /**/) /*]*/;
//
// What stands between /*[*/ and /*]*/ is what the program takes, all without them; what
// stands between /*:condition*/ and /**/ is a hole, and what fills it otherwise. Only text
// of this program fills holes: a value of a request is a parameter.
package sqltext

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// File is the statements of a file by their names.
type File map[string]*Statement

// Statement is one of them.
type Statement struct {
	Whole    string // with what the file has in the holes
	texts    []string
	holes    []string // between the texts
	distinct int
}

var (
	beginning = regexp.MustCompile(`(?m)^-- name: (\w+)\n(?:--.*\n)*`)
	hole      = regexp.MustCompile(`/\*:(\w+)\*/ ?(.*?) ?/\*\*/`)
)

// Read reads a file. It panics when that has no statements, so it belongs into a variable.
func Read(text string) File {
	f := File{}
	places := append(beginning.FindAllStringSubmatchIndex(text, -1), []int{len(text)})
	for i, at := range places[:len(places)-1] {
		name := text[at[2]:at[3]]
		if f[name] != nil {
			panic("sqltext: two statements are called " + name)
		}
		f[name] = statement(strings.TrimSuffix(strings.TrimSpace(text[at[1]:places[i+1][0]]), ";"))
	}
	if len(f) == 0 {
		panic("sqltext: there is no statement")
	}
	return f
}

func statement(text string) *Statement {
	s := &Statement{Whole: text}
	if _, from, within := strings.Cut(text, "/*[*/"); within {
		text, _, _ = strings.Cut(from, "/*]*/")
		text = strings.TrimSpace(text)
	}
	last := 0
	for _, at := range hole.FindAllStringSubmatchIndex(text, -1) {
		name := text[at[2]:at[3]]
		if !slices.Contains(s.holes, name) {
			s.distinct++
		}
		s.texts, s.holes = append(s.texts, text[last:at[0]]), append(s.holes, name)
		last = at[1]
	}
	s.texts = append(s.texts, text[last:])
	return s
}

// SQL returns a statement with its holes filled: fills are names of holes, each with what
// comes there. It panics when a hole is not filled, or one that is filled is none: defects
// that no input can cause.
func (f File) SQL(name string, fills ...string) string {
	s := f[name]
	if s == nil || len(fills) != 2*s.distinct {
		panic(fmt.Sprintf("sqltext: %s is not a statement with %d holes", name, len(fills)/2))
	}
	var b strings.Builder
	for i, hole := range s.holes {
		b.WriteString(s.texts[i])
		b.WriteString(fill(name, hole, fills))
	}
	b.WriteString(s.texts[len(s.texts)-1])
	return b.String()
}

func fill(name, hole string, fills []string) string {
	for i := 0; i < len(fills); i += 2 {
		if fills[i] == hole {
			return fills[i+1]
		}
	}
	panic(fmt.Sprintf("sqltext: nothing fills the hole %s of %s", hole, name))
}
