package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTheDoctorFailsWithWhatIsWrongForPeopleAndPrograms(t *testing.T) {
	t.Parallel()
	args := []string{"doctor", "--database-url", "postgres://127.0.0.1:1/none", "--skip", "machine"}
	text, err := ran(t, nil, args...)
	if err == nil || !strings.Contains(text, "fail  connection: the database") || !strings.Contains(text, "→ check --database-url") || !strings.Contains(text, "0 ok, 0 to look at, 1 failed") {
		t.Errorf("got %v\n%s", err, text)
	}
	text, err = ran(t, nil, append(args, "--format", "json")...)
	var told struct {
		OK     bool
		Checks []struct{ Group, Check, Level, Message, Do string }
	}
	if wrong := json.Unmarshal([]byte(text), &told); err == nil || wrong != nil || told.OK || len(told.Checks) != 1 || told.Checks[0].Level != "fail" || told.Checks[0].Do == "" {
		t.Errorf("got %v, %v\n%s", err, wrong, text)
	}
	for _, wrong := range [][]string{{"--skip", "weather"}, {"--format", "xml"}} {
		if _, err := ran(t, nil, append(args, wrong...)...); err == nil || !strings.Contains(err.Error(), wrong[0]) {
			t.Errorf("%v: got %v", wrong, err)
		}
	}
}
