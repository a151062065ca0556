package server

import "testing"

func TestATicketIsForOneClientUntilItsLoginEnds(t *testing.T) {
	t.Parallel()
	var all tickets
	if all.isFor("", "") || all.isFor("", "web") {
		t.Error("no ticket is one")
	}
	ticket, end := all.issue("web")
	other, endOther := all.issue("spa")
	defer endOther()
	for _, test := range []struct {
		ticket, client string
		want           bool
	}{
		{ticket, "web", true}, {other, "spa", true}, {ticket, "spa", false}, {ticket, "", false}, {"", "web", false}, {ticket + "x", "web", false},
	} {
		if got := all.isFor(test.ticket, test.client); got != test.want {
			t.Errorf("%q for %q: got %v", test.ticket, test.client, got)
		}
	}
	if end(); all.isFor(ticket, "web") || !all.isFor(other, "spa") {
		t.Error("the end of a log-in has to end its ticket, and no other one")
	}
}
