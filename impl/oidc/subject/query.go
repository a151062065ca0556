package subject

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/writ-id/writ/gen/db"
	"github.com/writ-id/writ/impl/core/batch"
	"github.com/writ-id/writ/impl/oidc/endpoint"
	"github.com/writ-id/writ/impl/oidc/scope"
)

// Half of what reading a row by its key costs PostgreSQL is to begin: to open and lock four
// tables. So what is asked for at the same time is asked for in one statement. Metadata may
// be long: who wants it asks alone, and nobody waits for that of another tenant.
type batches struct {
	subjects *batch.Batcher[question, *db.SubjectsRow]
	grants   *batch.Batcher[grantQuestion, *db.GrantSubjectsRow]
}

func (s *Reader) newBatches() batches {
	return batches{
		batch.Reader(func(ctx context.Context, asked []question) ([]*db.SubjectsRow, error) {
			return s.read(ctx, asked, false)
		}),
		batch.Reader(s.readGrants),
	}
}

// question is what has to be good for a token to be good, when and where.
type question struct {
	*About
	instanceID string
	now        time.Time
}

type grantQuestion struct {
	instanceID, userID, grantID string
	now                         time.Time
}

// anyGeneration is what Subjects calls none in particular.
const anyGeneration = -1

// Read reads what a token is about, in one statement; nil when any of it is not good any
// more: the user and their organization are active, and so is each of token, grant and
// session.
func (s *Reader) Read(ctx context.Context, at endpoint.Site, a About) (*Subject, error) {
	q := question{&a, at.ID, at.Now}
	var row *db.SubjectsRow
	var err error
	if a.Metadata {
		var rows []*db.SubjectsRow
		if rows, err = s.read(ctx, []question{q}, true); err == nil {
			row = rows[0]
		}
	} else {
		row, err = s.batches.subjects.Ask(ctx, q)
	}
	if err != nil || row == nil {
		return nil, err
	}
	return s.whole(ctx, at, &Subject{Subject: row.Subject, Claims: row.Claims, Metadata: row.Metadata}, row.Roles)
}

// read answers questions, each with its row or nil.
func (s *Reader) read(ctx context.Context, asked []question, metadata bool) ([]*db.SubjectsRow, error) {
	n := len(asked)
	p := db.SubjectsParams{WithMetadata: metadata, Now: slices.MaxFunc(asked, func(a, b question) int { return a.now.Compare(b.now) }).now}
	p.Grow(n)
	for i, q := range asked {
		generation := int32(anyGeneration)
		if q.Generation != nil {
			generation = *q.Generation
		}
		p.Add(db.SubjectsEntry{
			N: int32(i), InstanceID: q.instanceID, UserID: q.User, Generation: generation,
			TokenID: q.Token, GrantID: q.Grant, SessionID: q.Session, ProjectList: strings.Join(q.Projects, "\x1f"),
		})
	}
	rows, err := s.queries.Subjects(ctx, s.DB.Pool, p)
	answers := make([]*db.SubjectsRow, n)
	for i := range rows {
		answers[rows[i].N] = &rows[i]
	}
	return answers, err
}

// ReadGrant reads a grant whose refresh token is shown, and what it is about, likewise;
// with the roles in the projects that it is for, if they are asked for, and with metadata
// when the grant has the scope that asks for it.
func (s *Reader) ReadGrant(ctx context.Context, at endpoint.Site, userID, grantID string, roles bool) (*Subject, *Grant, error) {
	row, err := s.batches.grants.Ask(ctx, grantQuestion{at.ID, userID, grantID, at.Now})
	if err != nil || row == nil {
		return nil, nil, err
	}
	grant := &Grant{row.OauthGrant, row.LiveSessionID}
	var found *Subject
	if metadata := slices.Contains(grant.Scopes, scope.Metadata); roles || metadata {
		about := About{User: userID, Grant: grantID, Metadata: metadata}
		if roles {
			about.Projects = grant.Audience
		}
		found, err = s.Read(ctx, at, about)
	} else {
		found, err = s.whole(ctx, at, &Subject{Subject: row.Subject, Claims: grant.Claims}, nil)
	}
	return found, grant, err
}

func (s *Reader) readGrants(ctx context.Context, asked []grantQuestion) ([]*db.GrantSubjectsRow, error) {
	n := len(asked)
	p := db.GrantSubjectsParams{Now: slices.MaxFunc(asked, func(a, b grantQuestion) int { return a.now.Compare(b.now) }).now}
	p.Grow(n)
	for i, q := range asked {
		p.Add(db.GrantSubjectsEntry{N: int32(i), InstanceID: q.instanceID, UserID: q.userID, GrantID: q.grantID})
	}
	rows, err := s.queries.GrantSubjects(ctx, s.DB.Pool, p)
	answers := make([]*db.GrantSubjectsRow, n)
	for i := range rows {
		answers[rows[i].N] = &rows[i]
	}
	return answers, err
}

// whole completes a subject by what is remembered of its organization; nil when that is
// not active.
func (s *Reader) whole(ctx context.Context, at endpoint.Site, found *Subject, roles json.RawMessage) (*Subject, error) {
	org, err := s.org(ctx, at.ID, found.OrgID)
	if err != nil || org == nil {
		return nil, err
	}
	found.Domain, found.OrgName = org.Domain, org.Name
	if len(roles) > 0 {
		err = json.Unmarshal(roles, &found.Roles)
	}
	return found, err
}
