package foreign

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	transferv1 "github.com/writ-id/writ/gen/proto/writ/transfer/v1"
	userv3 "github.com/writ-id/writ/gen/proto/writ/user/v3alpha"
	"github.com/writ-id/writ/impl/core/transfer"
)

// csvColumns are the columns that a file may have, beside metadata.KEY.
var csvColumns = []string{
	"id", "external_id", "username", "email", "email_verified", "given_name", "family_name", "display_name", "nick_name", "preferred_language",
	"phone", "phone_verified", "password_hash", "password_change_required", "totp_secret", "state", "creation_date",
}

// CSV reads users from a table (RFC 4180) whose first line names the columns: a username or an
// e-mail address has to be there, and what else is known of csvColumns. A user without an
// ID gets one that is the same whenever the file is read.
func CSV(file io.ReadSeeker, options Options) (transfer.Source, error) {
	c := &table{reading: newReading(options)}
	limited := &budget{r: file, left: maxValueBytes}
	buffered, _ := startsWithList(limited) // for the mark of Unicode that spreadsheets write
	c.rows, c.budget = csv.NewReader(buffered), limited
	c.rows.ReuseRecord = true
	if err := c.header(); err != nil {
		return nil, err
	}
	c.step = c.line
	return c, c.organization()
}

type table struct {
	*reading
	rows    *csv.Reader
	budget  *budget
	columns map[string]int
	entries []string // keys of metadata, in their order
}

func (c *table) header() error {
	names, err := c.rows.Read()
	if err != nil {
		return c.wrong(err)
	}
	c.columns = map[string]int{}
	for i, name := range names {
		name = strings.TrimSpace(name)
		key, metadata := strings.CutPrefix(name, "metadata.")
		switch _, twice := c.columns[name]; {
		case twice:
			return malformed("line 1", "the column %q is there twice", name)
		case metadata && key != "":
			c.entries = append(c.entries, key)
		case !slices.Contains(csvColumns, name):
			c.Lost("column", name, "there is no place for it; there are "+strings.Join(csvColumns, ", ")+" and metadata.KEY")
		}
		c.columns[strings.Clone(name)] = i
	}
	for name, with := range map[string]string{"external_id": "id", "email_verified": "email", "phone_verified": "phone"} {
		_, is := c.columns[name]
		_, has := c.columns[with]
		switch {
		case is && with == "id" && has:
			c.Lost("column", name, "a user has one ID, which is that of the column id where it has one")
		case is && with != "id" && !has:
			c.Lost("column", name, "without a column "+with+" it says nothing")
		}
	}
	for _, name := range []string{"username", "email"} {
		if _, ok := c.columns[name]; ok {
			return nil
		}
	}
	return malformed("line 1", "it has to name the columns, one of which is username or email")
}

func (c *table) wrong(err error) error {
	if errors.Is(err, errLong) {
		return malformed("", "a line is longer than %d bytes", maxValueBytes)
	}
	if broken, ok := errors.AsType[*csv.ParseError](err); ok {
		return malformed(fmt.Sprintf("line %d, column %d", broken.Line, broken.Column), "%v", broken.Err)
	}
	if errors.Is(err, io.EOF) && c.columns == nil {
		return malformed("", "it is empty: its first line names the columns")
	}
	return err
}

func (c *table) line() error {
	c.budget.left = maxValueBytes
	values, err := c.rows.Read()
	if err != nil {
		return c.wrong(err)
	}
	line, _ := c.rows.FieldPos(0)
	cell := func(name string) string {
		if at, ok := c.columns[name]; ok {
			text := strings.Clone(strings.TrimSpace(values[at]))
			if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
				c.refuse(fmt.Sprintf("line %d", line), "%s: expected text in UTF-8", name)
			}
			return text
		}
		return ""
	}
	flag := func(name string) bool {
		text := strings.ToLower(cell(name))
		yes, err := strconv.ParseBool(text)
		if err != nil && text != "" && text != "yes" && text != "no" {
			c.refuse(fmt.Sprintf("line %d", line), "%s: expected true or false, got %q", name, text)
		}
		return yes || text == "yes"
	}
	email := cell("email")
	username := either(cell("username"), email)
	if username == "" {
		c.refuse(fmt.Sprintf("line %d", line), "there is no username and no email")
		return nil
	}
	id := either(cell("id"), cell("external_id"), derived("user", c.OrgID, strings.ToLower(username)))
	user := &transferv1.TransferUser{
		Id: id, OrgId: c.OrgID, Username: username, State: userv3.UserState_USER_STATE_ACTIVE, PasswordChangeRequired: flag("password_change_required"),
	}
	switch state := strings.ToLower(cell("state")); state {
	case "", "active":
	case "inactive":
		user.State = userv3.UserState_USER_STATE_INACTIVE
	case "locked":
		user.State = userv3.UserState_USER_STATE_LOCKED
	default:
		c.refuse(fmt.Sprintf("line %d", line), "state: expected active, inactive or locked, got %q", state)
	}
	if text := cell("creation_date"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if user.CreationDate = timestamppb.New(at); err != nil || !user.CreationDate.IsValid() {
			c.refuse(fmt.Sprintf("line %d", line), "creation_date: expected a date and a time, such as 2026-11-22T12:00:00Z, got %q", text)
		}
	}
	human := &userv3.Human{Profile: &userv3.Profile{
		GivenName: cell("given_name"), FamilyName: cell("family_name"), DisplayName: cell("display_name"), NickName: cell("nick_name"), PreferredLanguage: cell("preferred_language"),
	}}
	if verified := flag("email_verified"); email != "" {
		human.Email, user.IsEmailProven = &userv3.Email{Address: email, IsVerified: verified}, verified
	}
	if phone := cell("phone"); phone != "" {
		human.Phone = &userv3.Phone{Number: telephone(phone), IsVerified: flag("phone_verified")}
	}
	user.Type = &transferv1.TransferUser_Human{Human: human}
	if hash := cell("password_hash"); hash != "" {
		c.password(user, hash)
	}
	c.put("users", id, user)
	if text := cell("totp_secret"); text != "" {
		c.totp(c.OrgID, id, base32Secret(text), "")
	}
	for _, key := range c.entries {
		if value := cell("metadata." + key); value != "" {
			c.put("userMetadata", id+"/"+key, &transferv1.TransferUserMetadata{UserId: id, OrgId: c.OrgID, Id: key, Value: []byte(value)})
		}
	}
	return nil
}
