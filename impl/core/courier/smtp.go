package courier

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/mail"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// Encryption is how a connection to a mail server is encrypted.
type Encryption int

// The ways, of which STARTTLS is the default: then nothing is said, and least of all a
// password, to a server that does not offer it.
const (
	StartTLS Encryption = iota
	ImplicitTLS
	NoTLS
)

// MailServer is an SMTP server and how to send through it.
type MailServer struct {
	// Key names the server with its configuration: connections are kept for it.
	Key        string
	Address    string // host:port
	Encryption Encryption
	Login      Login
	// Sender is who the e-mails are from, ReplyTo who answers go to if that is not the same.
	Sender  mail.Address
	ReplyTo string
}

// Mail is an e-mail.
type Mail struct {
	// ID is the same at each attempt: of it the Message-ID is made.
	ID                  string
	To                  string
	Subject, Text, HTML string
}

const (
	// stepLimit is how long the server may take for its answer to a step.
	stepLimit = 20 * time.Second
	// A connection is kept for a moment and for some e-mails; servers have limits of their own.
	idleLimit   = 30 * time.Second
	idleLines   = 4 // for one server
	linesInAll  = 256
	mailsOnLine = 50
)

// line is a connection to a mail server.
type line struct {
	client *gomail.Client
	smtp   *smtp.Client
	conn   net.Conn
	mails  int
	timer  *time.Timer // until it is not kept any more
	// connected ends the time in which it has to be ready.
	connected func()
}

// Mail sends an e-mail through a server. The error is a *Problem, or that of ctx.
func (c *Courier) Mail(ctx context.Context, s *MailServer, m *Mail) error {
	msg, err := c.compose(s, m)
	if err != nil {
		return &Problem{What: "the e-mail cannot be written", Cause: err, Final: true}
	}
	for {
		l, kept := c.idle.take(s.Key)
		if !kept {
			if l, err = c.connect(ctx, s); err != nil {
				return err
			}
		}
		problem := l.send(ctx, msg)
		if problem == nil {
			c.idle.put(s.Key, l)
			return nil
		}
		_ = l.conn.Close()
		// A connection that was kept may have ended since: that says nothing of the e-mail.
		if kept && problem.early && ctx.Err() == nil {
			continue
		}
		return problem
	}
}

// compose writes an e-mail. Nothing of what is in it can become a header of its own
// (SEC-149): addresses are one address each, and other texts have no line ends.
func (c *Courier) compose(s *MailServer, m *Mail) (*gomail.Msg, error) {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	to, err := address(m.To)
	if err != nil {
		return nil, errors.New("the recipient has no e-mail address")
	}
	from, err := address(s.Sender.Address)
	if err != nil {
		return nil, errors.New("the sender has no e-mail address")
	}
	msg.FromMailAddress(&mail.Address{Name: plainWord(s.Sender.Name), Address: from})
	msg.ToMailAddress(&mail.Address{Address: to})
	if s.ReplyTo != "" {
		reply, err := address(s.ReplyTo)
		if err != nil {
			return nil, errors.New("the address for replies is none")
		}
		msg.ReplyToMailAddress(&mail.Address{Address: reply})
	}
	msg.Subject(plainWord(m.Subject))
	msg.SetMessageIDWithValue(plainWord(m.ID) + "@" + domain(from))
	msg.SetDateWithValue(c.Now())
	// Nobody's absence notice is for us (RFC 3834).
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	if m.HTML != "" {
		msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	}
	return msg, nil
}

// address returns an address that is one and nothing else.
func address(text string) (string, error) {
	parsed, err := mail.ParseAddress(text)
	if err != nil {
		return "", err
	}
	if parsed.Address != text || plainWord(text) != text || strings.ContainsAny(text, " \"<>(),;") {
		return "", errors.New("it is more than an address")
	}
	return text, nil
}

func domain(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }

// connect connects to a server, encrypts and authenticates.
func (c *Courier) connect(ctx context.Context, s *MailServer) (*line, error) {
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil, &Problem{What: "the mail server has no address", Cause: err}
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, &Problem{What: "the mail server has no port", Cause: err}
	}
	login := &login{Login: s.Login, host: host}
	if s.Login.Token != nil {
		if login.Password, err = c.token(ctx, s.Key, s.Login.Token); err != nil {
			return nil, err
		}
	}
	dialled, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	l := &line{}
	options := []gomail.Option{
		gomail.WithPort(number), gomail.WithTimeout(stepLimit), gomail.WithTLSConfig(c.Out.TLS(host)),
		gomail.WithoutSMTPUTF8(), // addresses are ASCII, and not every server further on has it
		gomail.WithHELO(cmp.Or(domain(s.Sender.Address), "localhost")),
		gomail.WithDialContextFunc(func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
			if conn, err = c.Out.DialMail(ctx, s.Address, s.Encryption == ImplicitTLS); err == nil {
				l.conn = conn
				stop := context.AfterFunc(dialled, func() { _ = conn.Close() })
				l.connected = func() { stop() }
			}
			return conn, err
		}),
	}
	if s.Login.User != "" {
		options = append(options, gomail.WithSMTPAuthCustom(login))
	}
	switch s.Encryption {
	case StartTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case ImplicitTLS:
		options = append(options, gomail.WithSSL())
	case NoTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if l.client, err = gomail.NewClient(host, options...); err != nil {
		return nil, &Problem{What: "the mail server has no address", Cause: err}
	}
	if l.smtp, err = l.client.DialToSMTPClientWithContext(dialled); err == nil {
		l.connected()
		return l, nil
	}
	if l.conn != nil {
		_ = l.conn.Close()
	}
	problem := connecting(err, l, login)
	if problem.Code/100 == 5 && s.Login.Token != nil {
		c.tokens.forget(s.Key)
	}
	return nil, problem
}

// connecting says why there is no connection to a mail server that e-mails could be sent
// over.
func connecting(err error, l *line, login *login) *Problem {
	if l.conn == nil {
		return &Problem{What: "the mail server is not reached", Cause: explain(err)}
	}
	if login.refused != nil {
		return &Problem{What: "the mail server cannot be signed in to", Cause: login.refused}
	}
	if said, ok := errors.AsType[*textproto.Error](err); ok {
		what := "the mail server does not let us in"
		if login.begun {
			what = "the mail server does not accept the credentials"
		}
		return &Problem{What: what, Code: said.Code, Detail: enhanced(said.Msg)}
	}
	if strings.Contains(err.Error(), "does not support STARTTLS") {
		return &Problem{What: "the mail server does not offer STARTTLS"}
	}
	if strings.Contains(err.Error(), "does not support SMTP AUTH") {
		return &Problem{What: "the mail server cannot be signed in to"}
	}
	return &Problem{What: "the connection to the mail server failed", Cause: explain(err)}
}

// send sends an e-mail over a line.
func (l *line) send(ctx context.Context, msg *gomail.Msg) *Problem {
	ended := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	defer ended()
	err := l.client.SendWithSMTPClient(l.smtp, msg)
	l.mails++
	if err == nil || msg.IsDelivered() { // it may have failed at clearing up
		return nil
	}
	if ctx.Err() != nil {
		return &Problem{What: "the mail server took too long"}
	}
	failed, ok := errors.AsType[*gomail.SendError](err)
	if !ok {
		return &Problem{What: "the connection to the mail server broke"}
	}
	early := failed.Reason == gomail.ErrConnCheck || failed.Reason == gomail.ErrSMTPMailFrom
	p := &Problem{Code: failed.ErrorCode(), Detail: failed.EnhancedStatusCode()}
	if p.Code == 0 || p.Code == 421 {
		p.What, p.early = "the connection to the mail server broke", early
		return p
	}
	// Of what it will not do for us it may be persuaded: somebody has to sign in, for example.
	never := p.Code/100 == 5 && p.Code != 530 && !strings.HasPrefix(p.Detail, "5.7.")
	switch failed.Reason {
	case gomail.ErrSMTPMailFrom:
		p.What = "the mail server refuses the sender"
	case gomail.ErrSMTPRcptTo:
		p.What, p.Final = "the mail server refuses the recipient", never
	default:
		p.What, p.Final = "the mail server refuses the e-mail", never
	}
	return p
}

// explain returns what went wrong with a connection without texts of the other side.
func explain(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var timeout net.Error
	switch {
	case errors.As(err, &unknown):
		return errors.New("nobody we trust vouches for its certificate")
	case errors.As(err, &name):
		return errors.New("its certificate is for another name")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errors.New("its certificate has expired or is not valid yet")
	case errors.As(err, &invalid):
		return errors.New("its certificate is not good")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("it took too long")
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("it does not speak TLS")
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return errors.New("it broke off")
	}
	if _, ok := errors.AsType[textproto.ProtocolError](err); ok {
		return errors.New("it does not speak SMTP")
	}
	return err
}

// enhanced returns the code of RFC 3463 that an answer begins with, if it has one.
func enhanced(text string) string {
	code, _, _ := strings.Cut(text, " ")
	parts := strings.Split(code, ".")
	if len(parts) != 3 {
		return ""
	}
	for _, part := range parts {
		if _, err := strconv.ParseUint(part, 10, 10); err != nil {
			return ""
		}
	}
	return code
}
