package federation

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/url"
	"time"

	"github.com/writ-id/writ/gen/db"
	tokenv1 "github.com/writ-id/writ/gen/proto/writ/token/v1"
	"github.com/writ-id/writ/impl/core/policy"
	"github.com/writ-id/writ/impl/core/token"
	"github.com/writ-id/writ/impl/core/upstream"
	"github.com/writ-id/writ/impl/oidc/login/flow"
)

// The round trip to an identity provider. Its state is the whole attempt, sealed: it has to
// come back in the browser that began it, within ten minutes, once, and at the address that
// it was sent to (SEC-200). Whether the provider may be used here is asked when its button is
// shown, when the trip begins and when it ends (SEC-205).

// MaxState bounds a state, which travels in URLs of others.
const MaxState = 4 << 10

// The errors of trips.
var (
	ErrTooLarge = errors.New("federation: the state is too large")
	ErrExpired  = errors.New("federation: the state is too old, of another browser or none at all")
)

// Begin begins a trip to a provider: it returns where the browser goes, or why it goes
// nowhere. The flow has left already (flow.Left).
func (s *Service) Begin(ctx context.Context, l *Login, id string) (address string, refused flow.Event, err error) {
	p, err := s.provider(ctx, l, l.Flow.Home(), id)
	if err != nil {
		return "", nil, err
	}
	if p == nil {
		return "", errGone, nil
	}
	asked, proof := l.Flow.Asked(), l.Flow.Proof()
	attempt := upstream.Attempt{
		Pending: &tokenv1.Upstream{
			Id: s.NewID(), Browser: l.Browser.Jar.Bind(), RedirectUri: l.Browser.Origin(l.Browser.Host) + callbackOf(p), Flow: l.Flow.Message(),
		},
		LoginHint: l.Flow.Hint(), Languages: l.Language, Anew: proof != flow.Proof{}, Choose: asked.Choose,
		Seal: func(pending *tokenv1.Upstream) (string, error) {
			sealed, err := s.Box.Seal(ctx, l.instance(), token.Upstream, pending)
			if len(sealed) > MaxState {
				err = ErrTooLarge
			}
			return sealed, err
		},
	}
	err = outside(ctx, func(ctx context.Context) (err error) {
		address, err = s.Upstream.Begin(ctx, p, attempt)
		return err
	})
	if err != nil {
		refused, err = s.failed(ctx, l, p, err)
	}
	return address, refused, err
}

// outside runs what waits for a provider; that holds nobody's place.
func outside(ctx context.Context, do func(context.Context) error) error {
	return policy.RequestFrom(ctx).Outside(ctx, upstream.Timeout, do)
}

// callbackOf returns where a provider has to answer: at one address for all whose ID tokens
// bind the answer to the attempt, at their own for others (RFC 9700, section 4.4.2).
func callbackOf(p *upstream.Provider) string {
	if p.HasNonce() {
		return flow.PathCallback
	}
	return flow.PathCallback + "/" + url.PathEscape(p.ID)
}

// failed says that there was a problem with a provider, in our words; a log says more.
func (s *Service) failed(ctx context.Context, l *Login, p *upstream.Provider, err error) (flow.Event, error) {
	told, ok := errors.AsType[*upstream.Problem](err)
	if !ok {
		return nil, err
	}
	if told.Kind != upstream.Canceled {
		s.Logger.WarnContext(ctx, "an identity provider signed nobody in", "idp", p.ID, "instance", l.instance(), policy.LogID(ctx), "err", told)
	}
	return flow.Refused{Reason: "idp_" + string(told.Kind)}, nil
}

// Answered are the parameters of an answer that are read.
var Answered = []string{"state", "code", "iss", "error", "user"}

// Open reads the state of an answer that came to a path: a trip of the browser of l, whose
// flow becomes that of the trip.
func (s *Service) Open(ctx context.Context, l *Login, path string, answer url.Values) (*tokenv1.Upstream, error) {
	pending := &tokenv1.Upstream{}
	if len(answer["state"]) != 1 {
		return nil, ErrExpired
	}
	err := s.Box.Open(ctx, l.instance(), token.Upstream, answer.Get("state"), pending)
	if errors.Is(err, token.ErrInvalid) {
		return nil, ErrExpired
	}
	if err != nil {
		return nil, err
	}
	f, jar := flow.Of(pending.GetFlow()), l.Browser.Jar
	age := s.Now().Sub(time.Unix(pending.GetStartedAt(), 0))
	if age >= upstream.Lifetime || age < -time.Minute || !jar.Owns(pending.GetBrowser()) || !jar.Owns(f.Browser()) ||
		pending.GetRedirectUri() != l.Browser.Origin(l.Browser.Host)+path || !f.IsRecent(s.Now()) {
		return nil, ErrExpired
	}
	l.Flow = f
	return pending, nil
}

// Finish ends a trip: it returns the verdict on who has come back.
func (s *Service) Finish(ctx context.Context, l *Login, pending *tokenv1.Upstream, answer url.Values) (flow.Event, error) {
	first, err := s.once(ctx, s.DB.Pool, l.instance(), "attempt", pending.GetId())
	if err != nil {
		return nil, err
	}
	if !first {
		return flow.Refused{Reason: "idp_again"}, nil
	}
	p, err := s.provider(ctx, l, l.Flow.Home(), pending.GetProviderId())
	if err != nil {
		return nil, err
	}
	if p == nil {
		return errGone, nil
	}
	only := url.Values{}
	for _, name := range Answered {
		if values, ok := answer[name]; ok {
			only[name] = values
		}
	}
	var who *upstream.Identity
	if err := outside(ctx, func(ctx context.Context) (err error) {
		who, err = s.Upstream.Finish(ctx, p, pending, only)
		return err
	}); err != nil {
		return s.failed(ctx, l, p, err)
	}
	return s.judge(ctx, l, p, pending, who)
}

// once uses something up that may be used once, on all nodes; it reports whether this was the
// first time.
func (s *Service) once(ctx context.Context, tx db.DBTX, instanceID, kind, id string) (bool, error) {
	hash := sha256.Sum256([]byte("\x02" + kind + "\x00" + id))
	n, err := s.queries.UseAssertion(ctx, tx, db.UseAssertionParams{InstanceID: instanceID, Hash: hash[:], ExpirationDate: s.Now().Add(flow.Lifetime)})
	return n == 1, err
}

// EndSession returns where a browser signs out of the identity provider too that a session was
// begun with; state comes back from there. It is empty when the provider has no such place.
func (s *Service) EndSession(ctx context.Context, instanceID, orgID, idpID, origin, state string) (address string, err error) {
	of, err := s.Upstreams.Provider(ctx, instanceID, orgID, idpID)
	if err != nil || of == nil {
		return "", err
	}
	err = outside(ctx, func(ctx context.Context) (err error) {
		address, err = s.Upstream.EndSession(ctx, of, origin+flow.PathSignedOut, state)
		return err
	})
	return address, err
}
