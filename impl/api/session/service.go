// Package session manages sessions: what a user has proven to be themselves with.
//
// Service implements contracts/proto/writ/session. What a call proves is checked
// and counted first, outside of any transaction, so that a failure cannot be
// rolled back (check.go); then one transaction uses the proofs up and writes them
// into the session (change.go).
package session

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/writ-id/writ/gen/db"
	eventv1 "github.com/writ-id/writ/gen/proto/writ/event/v1"
	sessionv3 "github.com/writ-id/writ/gen/proto/writ/session/v3alpha"
	"github.com/writ-id/writ/gen/storage"
	"github.com/writ-id/writ/impl/api/authenticator"
	"github.com/writ-id/writ/impl/api/user"
	"github.com/writ-id/writ/impl/core/fault"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/resource"
	"github.com/writ-id/writ/impl/core/secret"
)

// TokenPrefix marks session tokens, for secret scanners.
const TokenPrefix = "writ_ses_"

// Service implements the sessions API. It is safe for concurrent use.
type Service struct {
	sessionv3.UnsafeServiceSessionsServer

	resource.Env
	factors  *authenticator.Factors
	users    *user.Service
	queries  *db.Queries
	sessions *resource.Table[db.SessionRow, storage.Sessions]
}

var _ sessionv3.ServiceSessionsServer = (*Service)(nil)

// row is a session with what is read along of its user.
type row = db.SessionRow

// New returns a Service over env that checks passwords by users and second factors by
// factors.
func New(env resource.Env, factors *authenticator.Factors, users *user.Service) *Service {
	return &Service{
		Env: env, factors: factors, users: users, queries: db.New(),
		sessions: resource.New(env, storage.Sessions{}),
	}
}

// In returns the service within a transaction: what it does happens when that commits.
func (s *Service) In(tx pgx.Tx) *Service { return New(s.Env.In(tx), s.factors, s.users) }

// CreateSession creates a session with what is proven at once.
func (s *Service) CreateSession(ctx context.Context, req *sessionv3.CreateSessionRequest) (*sessionv3.CreateSessionResponse, error) {
	return s.CreateSessionBy(ctx, req, Attempt{})
}

// CreateSessionBy is CreateSession for the pages, which know who tries.
func (s *Service) CreateSessionBy(ctx context.Context, req *sessionv3.CreateSessionRequest, by Attempt) (*sessionv3.CreateSessionResponse, error) {
	session := s.begin(ctx, req.GetSession())
	proven, err := s.check(ctx, session, req.GetSession().GetChecks(), by)
	if err != nil {
		return nil, err
	}
	return s.create(ctx, session, proven, req.GetSession())
}

// CreateProven is CreateSession for who registers: in names the user whose password
// the caller has set in the same transaction. It counts as proven; comparing it with
// its own hash would tell nothing, and takes too long for a transaction.
func (s *Service) CreateProven(ctx context.Context, in *sessionv3.Session) (*sessionv3.CreateSessionResponse, error) {
	session := s.begin(ctx, in)
	proven, err := s.check(ctx, session, in.GetChecks(), Attempt{})
	if err != nil {
		return nil, err
	}
	proven.steps = append(proven.steps, s.passwordStep())
	return s.create(ctx, session, proven, in)
}

// CreateByIntent is CreateSession for who signed in with an identity provider, which the
// caller has made sure of: in names the user.
func (s *Service) CreateByIntent(ctx context.Context, in *sessionv3.Session, intent Intent) (*sessionv3.CreateSessionResponse, error) {
	session := s.begin(ctx, in)
	proven, err := s.check(ctx, session, in.GetChecks(), Attempt{})
	if err != nil {
		return nil, err
	}
	proven.steps = append(proven.steps, s.intentStep(session.InstanceID, proven, intent))
	return s.create(ctx, session, proven, in)
}

// PatchByIntent is PatchSession for who signed in with an identity provider.
func (s *Service) PatchByIntent(ctx context.Context, req *sessionv3.PatchSessionRequest, intent Intent) (*sessionv3.PatchSessionResponse, error) {
	return s.patch(ctx, req, Attempt{}, &intent)
}

// begin returns a session that is not stored yet.
func (s *Service) begin(ctx context.Context, in *sessionv3.Session) *row {
	call := policy.CallFrom(ctx)
	session := &row{InstanceID: call.Context.InstanceID, ID: s.NewID(), Creator: call.Caller.UserID, Metadata: []byte("{}")}
	storage.AssignUserAgent(session, in.GetUserAgent())
	return session
}

// create stores a session with what was proven.
func (s *Service) create(ctx context.Context, session *row, p *proven, in *sessionv3.Session) (*sessionv3.CreateSessionResponse, error) {
	res := &sessionv3.CreateSessionResponse{}
	if p.password != nil && p.onlyPassword() && in.GetChallenges() == nil {
		return res, s.createAtOnce(ctx, session, p, in, res)
	}
	err := s.DB.InTx(ctx, func(tx pgx.Tx) (err error) {
		if err := s.hold(ctx, tx, session.InstanceID, p); err != nil {
			return err
		}
		made := *session // a transaction that is run again starts anew
		res.SessionToken, made.TokenHash = newToken()
		draft := s.sessions.New(ctx, &made, &eventv1.SessionAdded{})
		res.Challenges, err = s.apply(ctx, tx, draft, p, in)
		res.Details = s.sessions.Details(&made)
		return err
	})
	if err == nil {
		err = p.done(ctx)
	}
	return res, failed(err)
}

// createAtOnce stores a session in which a user and a password were proven, as most are
// begun: one statement, which judges the password.
func (s *Service) createAtOnce(ctx context.Context, made *row, p *proven, in *sessionv3.Session, res *sessionv3.CreateSessionResponse) error {
	res.SessionToken, made.TokenHash = newToken()
	draft := s.sessions.New(ctx, made, &eventv1.SessionAdded{})
	if err := s.fill(ctx, draft, p, in); err != nil {
		return err
	}
	events, err := draft.Steps()
	if err != nil {
		return err
	}
	params := db.BeginSessionParams{UserID: p.user.ID, Generation: p.user.Generation}
	storage.Sessions{}.BeginSession(&params, made)
	p.password.Judged(&params)
	params.Grow(len(events))
	for i := range events {
		e := events[i].Record()
		params.Add(db.BeginSessionEntry{EventType: e.EventType, Payload: string(e.Payload), OwnerType: e.OwnerType, OwnerID: e.OwnerID, CreatedAt: e.At})
		params.ClientAddress, params.Traceparent = e.ClientAddress, e.Traceparent
	}
	begun, err := s.queries.BeginSession(ctx, s.DB.Conn(), params)
	switch {
	case err != nil:
		return err
	case begun.Spent:
		return s.judged(ctx, user.ErrTooMany)
	case begun.Sequence == 0: // what was proven ended meanwhile
		return errCheck
	}
	s.DB.Committed()
	made.Sequence = begun.Sequence
	res.Details = s.sessions.Details(made)
	_ = s.judged(ctx, nil)
	return p.done(ctx)
}

// PatchSession adds to a session and gives it a new token. Of parallel patches
// with one token, one finds it good.
func (s *Service) PatchSession(ctx context.Context, req *sessionv3.PatchSessionRequest) (*sessionv3.PatchSessionResponse, error) {
	return s.PatchSessionBy(ctx, req, Attempt{})
}

// PatchSessionBy is PatchSession for the pages, which know who tries.
func (s *Service) PatchSessionBy(ctx context.Context, req *sessionv3.PatchSessionRequest, by Attempt) (*sessionv3.PatchSessionResponse, error) {
	return s.patch(ctx, req, by, nil)
}

func (s *Service) patch(ctx context.Context, req *sessionv3.PatchSessionRequest, by Attempt, intent *Intent) (*sessionv3.PatchSessionResponse, error) {
	in := req.GetSession()
	session, err := s.sessions.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	if err := s.mayPatch(ctx, session, in.SessionToken); err != nil {
		return nil, err
	}
	proven, err := s.check(ctx, session, in.GetChecks(), by)
	if err != nil {
		return nil, err
	}
	if intent != nil {
		proven.steps = append(proven.steps, s.intentStep(session.InstanceID, proven, *intent))
	}
	res := &sessionv3.PatchSessionResponse{}
	err = s.DB.InTx(ctx, func(tx pgx.Tx) error {
		if err := s.hold(ctx, tx, session.InstanceID, proven); err != nil {
			return err
		}
		session, err := s.sessions.Lock(ctx, tx, req.GetId())
		if err != nil {
			return err
		}
		if err := s.mayPatch(ctx, session, in.SessionToken); err != nil {
			return err
		}
		draft := s.sessions.Edit(session)
		draft.Change(ctx, &eventv1.SessionTokenSet{}, func(session *row) { res.SessionToken, session.TokenHash = newToken() })
		res.Challenges, err = s.apply(ctx, tx, draft, proven, in)
		res.Details = s.sessions.Details(session)
		return err
	})
	if err == nil {
		err = proven.done(ctx)
	}
	return res, failed(err)
}

// mayPatch refuses callers that neither have the token of a session nor hold the
// permission there. Who may not even read it does not learn that it exists.
func (s *Service) mayPatch(ctx context.Context, session *row, token *string) error {
	switch {
	case token != nil && sameToken(session.TokenHash, *token):
		return nil
	case token == nil && holds(ctx, session, "session.write"):
		return nil
	case !holds(ctx, session, "session.read") && (session.UserID == nil || *session.UserID != policy.CallFrom(ctx).Caller.UserID):
		return s.sessions.Missing(session.ID)
	case token != nil:
		return fault.New(fault.PermissionDenied, "SESSION_TOKEN_INVALID", "the session token is wrong or not the last one").On("session.sessionToken")
	}
	return fault.New(fault.PermissionDenied, "PERMISSION_DENIED", "the caller has neither the token of the session nor the permission session.write")
}

func holds(ctx context.Context, session *row, permission string) bool {
	at := policy.Place{InstanceID: session.InstanceID}
	if session.OrgID != nil {
		at.OrgID = *session.OrgID
	}
	return policy.CallFrom(ctx).Holds(permission, at)
}

// newToken returns a token of 256 random bits and what is stored of it.
func newToken() (token string, hash []byte) {
	token = TokenPrefix + secret.Random()
	return token, hashToken(token)
}

func hashToken(token string) []byte {
	hash := secret.HashToken(token)
	return hash[:]
}

func sameToken(hash []byte, token string) bool { return string(hashToken(token)) == string(hash) }

// byToken makes the token a part of the address of a session.
func byToken(token string) resource.Condition[row] {
	return func(session *row) bool { return sameToken(session.TokenHash, token) }
}

// DeleteSession ends a session.
func (s *Service) DeleteSession(ctx context.Context, req *sessionv3.DeleteSessionRequest) (*sessionv3.DeleteSessionResponse, error) {
	details, err := s.sessions.Delete(ctx, req.GetId(), &eventv1.SessionTerminated{}, func(tx pgx.Tx, session *row) error {
		if session.UserID == nil {
			return nil
		}
		return policy.CallFrom(ctx).MayBecome(ctx, tx, session.InstanceID, *session.UserID)
	})
	return &sessionv3.DeleteSessionResponse{Details: details}, err
}

// EndSession ends a session by its token.
func (s *Service) EndSession(ctx context.Context, req *sessionv3.EndSessionRequest) (*sessionv3.EndSessionResponse, error) {
	details, err := s.sessions.Delete(ctx, req.GetId(), &eventv1.SessionTerminated{}, nil, byToken(req.GetSessionToken()))
	return &sessionv3.EndSessionResponse{Details: details}, err
}

// GetSession reads one session.
func (s *Service) GetSession(ctx context.Context, req *sessionv3.GetSessionRequest) (*sessionv3.GetSessionResponse, error) {
	session, err := s.sessions.Get(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &sessionv3.GetSessionResponse{Session: s.view(session)}, nil
}

// ProveSession reads a session by its token.
func (s *Service) ProveSession(ctx context.Context, req *sessionv3.ProveSessionRequest) (*sessionv3.ProveSessionResponse, error) {
	session, err := s.sessions.Get(ctx, req.GetId(), byToken(req.GetSessionToken()))
	if err != nil {
		return nil, err
	}
	return &sessionv3.ProveSessionResponse{Session: s.view(session)}, nil
}

// SearchSessions finds the sessions that meet all filters.
func (s *Service) SearchSessions(ctx context.Context, req *sessionv3.SearchSessionsRequest) (*sessionv3.SearchSessionsResponse, error) {
	rows, details, err := storage.SearchSessions(ctx, s.sessions, req)
	res := &sessionv3.SearchSessionsResponse{Details: details, SortingColumn: req.GetSortingColumn()}
	for i := range rows {
		res.Result = append(res.Result, s.view(&rows[i]))
	}
	return res, err
}

// view returns a session as it is now. What is not proven has no factor, and of an
// expired session nothing is proven but whose it was.
func (s *Service) view(session *row) *sessionv3.GetSession {
	view := storage.NewGetSession(session)
	view.State, view.Metadata = sessionv3.SessionState_SESSION_STATE_ACTIVE, metadataOf(session)
	expired := s.expired(session)
	if expired {
		view.State = sessionv3.SessionState_SESSION_STATE_EXPIRED
	}
	factors := view.Factors
	if factors.GetUser().GetVerifiedAt() == nil {
		factors.User = nil
	}
	for _, factor := range []**sessionv3.Factor{&factors.Password, &factors.Totp, &factors.OtpSms, &factors.OtpEmail} {
		if expired || (*factor).GetVerifiedAt() == nil {
			*factor = nil
		}
	}
	if expired || factors.GetIntent().GetVerifiedAt() == nil {
		factors.Intent = nil
	}
	return view
}

// expired reports whether the lifetime of a session is over.
func (s *Service) expired(session *row) bool {
	return session.ExpirationDate != nil && !s.Now().Before(*session.ExpirationDate)
}
