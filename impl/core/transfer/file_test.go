package transfer_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/transfer"
)

func read(t *testing.T, text string) (items []string, ignored []string, err error) {
	t.Helper()
	r := transfer.NewReader(strings.NewReader(text), storage.Moved, func(member string) { ignored = append(ignored, member) })
	for {
		kind, item, err := r.Next(t.Context())
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return items, ignored, err
		}
		id, org := kind.Names(item)
		items = append(items, kind.Name+" "+org+" "+id)
	}
}

func TestAFileIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := transfer.NewWriter(&b, storage.Moved)
	for _, one := range []struct {
		kind *transfer.Kind
		item transfer.Item
	}{
		{storage.MovedOrganizations, &transferv1.TransferOrganization{Id: "o1", Name: "Acme"}},
		{storage.MovedOrganizations, &transferv1.TransferOrganization{Id: "o2", Name: "\"Other\"\n"}},
		{storage.MovedUserMetadata, &transferv1.TransferUserMetadata{UserId: "u1", Id: "k", OrgId: "o1", Value: []byte{0, 1}}},
	} {
		if err := w.Item(one.kind, one.item); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Item(storage.MovedOrganizations, &transferv1.TransferOrganization{}); err == nil {
		t.Error("a list that is closed was opened again")
	}
	if err := w.Close(&transferv1.Summary{}); err == nil {
		t.Error("closed after an error without telling")
	}
	items, ignored, err := read(t, `{"user_metadata":[{"user_id":"u1","id":"k","orgId":"o1","value":"AAE="}],"more":{"x":[1,{"y":"]"}]},"organizations":[{"id":"o1"}],
		"summary":{"carried":[]},"version":1,"organizations":[{"id":"o2"}]}`)
	if err != nil || !slices.Equal(items, []string{"userMetadata o1 u1/k", "organizations o1 o1", "organizations o2 o2"}) || !slices.Equal(ignored, []string{"more"}) {
		t.Errorf("got %q, ignored %q: %v", items, ignored, err)
	}
}

func TestWhatIsWrongWithAFileIsSaidWithItsPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                                 "FILE_INCOMPLETE ",
		`{"version":1,"users":[{"id":"a"}`: "FILE_INCOMPLETE users[1]",
		`{"version":2}`:                    "UNKNOWN_VERSION version",
		`{"organizations":{}}`:             "MALFORMED_FILE ",
		`[]`:                               "MALFORMED_FILE ",
		`{"organizations":[{"id":"a"},{"ID":1}]}`:           "UNKNOWN_FIELD organizations[1].ID",
		`{"users":[{"human":{"profile":{"givenName":1}}}]}`: "WRONG_TYPE users[0].human.profile.givenName",
		`{} {}`:               "MALFORMED_FILE ",
		`{"organizations":x}`: "MALFORMED_FILE organizations[0]",
	} {
		_, _, err := read(t, text)
		refusal, ok := errors.AsType[*fault.Error](err)
		if !ok {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := refusal.Reason + " "
		if len(refusal.Fields) > 0 {
			got += refusal.Fields[0].Field
		}
		if got != want {
			t.Errorf("%s: got %q (%s), want %q", text, got, refusal.Message, want)
		}
	}
}

// TestSEC290_NothingInAFileIsHeldWhole has a text that never ends.
func TestSEC290_NothingInAFileIsHeldWhole(t *testing.T) {
	t.Parallel()
	endless := io.MultiReader(strings.NewReader(`{"organizations":[{"id":"`), io.LimitReader(xs{}, 1<<40))
	r := transfer.NewReader(endless, storage.Moved, nil)
	_, _, err := r.Next(t.Context())
	if refusal, ok := errors.AsType[*fault.Error](err); !ok || refusal.Reason != "ITEM_TOO_LARGE" {
		t.Errorf("got %v", err)
	}
}

type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func FuzzReader(f *testing.F) {
	f.Add(`{"version":1,"users":[{"id":"a","orgId":"o","username":"n","human":{}}],"summary":{}}`)
	f.Add(`{"memberships":[{}],"x":[[[]]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r := transfer.NewReader(strings.NewReader(text), storage.Moved, func(string) {})
		for range 1000 {
			kind, item, err := r.Next(t.Context())
			if err != nil {
				return
			}
			var b bytes.Buffer
			w := transfer.NewWriter(&b, storage.Moved)
			if err := errors.Join(w.Item(kind, item), w.Close(&transferv1.Summary{})); err != nil {
				t.Fatal(err)
			}
			if _, again, err := transfer.NewReader(&b, storage.Moved, func(string) {}).Next(t.Context()); err != nil || string(again.AppendJSON(nil)) != string(item.AppendJSON(nil)) {
				t.Fatalf("%s was written as %s: %v", text, b.String(), err)
			}
		}
	})
}
