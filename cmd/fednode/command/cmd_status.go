package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/fedsim/fedsim/cmd/fednode/internal/check"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/node/ops"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

type statusCmd struct {
	Ops        string   `default:"127.0.0.1:9464" help:"Where the process shows it: its own --ops."`
	State      string   `placeholder:"DIR" help:"Instead of a process: the state of a client that is not running. Tells its owner what was agreed to and spent."`
	MaxEpsilon *float64 `placeholder:"E" help:"With --state: the owner's limit, of which the rest is left. Default: the --max-epsilon of the client's last session."`
	Ready      bool     `help:"Exit with 1 unless the process is ready, and say what is missing: for HEALTHCHECK and scripts."`
	Missing    bool     `help:"Of an aggregator: print the enrolled clients that are not connected, one a line."`
	formatFlag
}

func (c *statusCmd) Run(ctx context.Context, s *streams) error {
	if c.State != "" && (c.Ready || c.Missing) {
		return cli.Misusef("--ready and --missing ask a process, by its --ops; --state reads files")
	}
	if c.State != "" {
		return c.owner(s)
	}
	status, err := ops.Fetch(ctx, c.Ops)
	switch {
	case errors.Is(err, ops.ErrAddress):
		return cli.Misusef("--ops: %w", err)
	case errors.Is(err, ops.ErrSilent):
		return fmt.Errorf("%w; say with --ops where the process shows its status, or read a client's own with --state", err)
	case err != nil:
		return err
	case c.Ready && !status.Ready:
		return fmt.Errorf("not ready: %s", cmp.Or(status.Trouble, "it has not registered with the aggregator"))
	case c.Missing && status.Places == 0:
		return cli.Misusef("--missing: %s is a %s, and only an aggregator knows who is enrolled", c.Ops, status.Role)
	case c.Missing:
		if more := status.Away - len(status.Missing); more > 0 {
			fmt.Fprintf(s.err, "and %d more\n", more)
		}
		_, err = io.WriteString(s.out, strings.Join(append(status.Missing, ""), "\n"))
		return err
	}
	return cli.PrintForm(s.out, c.Format, shown, "status", status)
}

func (c *statusCmd) owner(s *streams) error {
	most := math.NaN() // as in the last session
	if c.MaxEpsilon != nil {
		if most = *c.MaxEpsilon; !(most > 0) {
			return cli.Misusef("--max-epsilon %v: a number above 0 is needed, or inf", most)
		}
	}
	account, err := readOwner(c.State, most)
	if err != nil {
		return err
	}
	return cli.PrintForm(s.out, c.Format, shown, "account", account)
}

// readOwner reads a client's state. No process may be running on it.
func readOwner(state string, most float64) (*store.Account, error) {
	m, err := admission.ReadFile(filepath.Join(state, party.MembershipFile), admission.ParseMembership)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Misusef("--state %s: it does not belong to a client that has enrolled", state)
	}
	if err != nil {
		return nil, err
	}
	ledger, err := store.OpenLedger(filepath.Join(state, party.LedgerFile), m.Enrolment.Identity)
	if errors.Is(err, store.ErrLocked) {
		return nil, cli.Misusef("--state %s: its client is running; stop it, or ask it with --ops", state)
	}
	if err != nil {
		return nil, err
	}
	defer ledger.Close() //nolint:errcheck // only read
	consents, err := store.Consents(state)
	if err != nil {
		return nil, err
	}
	receipts, err := store.OpenReceipts(filepath.Join(state, party.ReceiptsFile))
	if err != nil {
		return nil, err
	}
	account, err := ledger.Account(m.Enrolment.Ticket.Place.String(), consents, most)
	if _, _, size := receipts.Last(); err == nil {
		account.Logged = size
	}
	return account, err
}

// runningAccount is the account of a running client. It is computed when a caller asks for it, and again only when there is more to it.
type runningAccount struct {
	state  string
	member *party.Member
	most   float64 // --max-epsilon

	mu                sync.Mutex
	known             *store.Account
	charges, sessions int // that are in it
}

func (r *runningAccount) account() (*store.Account, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	consents, err := store.Consents(r.state)
	if err != nil {
		return nil, err
	}
	if charges := r.member.Ledger.Charges(); r.known == nil || r.charges != charges || r.sessions != len(consents) {
		if r.known, err = r.member.Ledger.Account(r.member.Membership.Enrolment.Ticket.Place.String(), consents, r.most); err != nil {
			return nil, err
		}
		r.charges, r.sessions = charges, len(consents)
	}
	return r.known, nil
}

// mostLeftOut limits the records that an owner is told of one by one.
const mostLeftOut = 20

// leftOut tells an owner which records of a file are not used. Only the person who started the
// client may learn what the file holds, so the client takes part all the same.
type leftOut struct {
	log   *zerolog.Logger
	count int
	off   int // of them, ratings that are off the scale
}

func (l *leftOut) record(err *dataset.FileError) {
	if errors.Is(err.Err, dataset.ErrOffScale) {
		l.off++
	}
	if l.count++; l.count <= mostLeftOut {
		l.log.Warn().Str("file", err.File).Int("line", err.Line).AnErr("reason", contentless{err.Err}).Msg("a record is left out")
	}
}

// content matches what an error about a record may quote of it: texts in quotation marks, and numbers. It also matches the
// number of another line, which is no content.
var content = regexp.MustCompile(`\bline \d+|"(?:[^"\\]|\\.)*"|[-+]?\d[\w.+-]*`)

// contentless is an error about a record without the record's content. A log holds no rating, and its reader has the line.
type contentless struct{ error }

func (e contentless) Error() string {
	return content.ReplaceAllStringFunc(e.error.Error(), func(text string) string {
		if strings.HasPrefix(text, "line ") {
			return text
		}
		return "…"
	})
}

func (e contentless) Unwrap() error { return e.error }

// withoutContent returns the error of a data file without what the file says there.
func withoutContent(err error) error {
	if f, ok := errors.AsType[*dataset.FileError](err); ok {
		return &dataset.FileError{File: f.File, Line: f.Line, Err: contentless{f.Err}}
	}
	return err
}

func (l *leftOut) end() {
	if more := l.count - mostLeftOut; more > 0 {
		l.log.Warn().Int("more", more).Msg("more records are left out, which are not listed")
	}
}

// A file is of another scale if more than a tenth of its ratings, and at least fewOff, are off the
// session's. Fewer are slips, which are left out: one rating does not decide whether a client takes part.
const fewOff = 3

var errScale = errors.New("the ratings are on another scale than the session's")

// scale refuses data on another scale as a whole. used counts the ratings that are left.
func (l *leftOut) scale(data string, used int, low, high float64) error {
	if l.off < fewOff || 10*l.off <= l.off+used {
		return nil
	}
	return fmt.Errorf("%w: of %d ratings in %s %d are outside of %v to %v; nothing is trained on. Convert the ratings to that scale and start again",
		errScale, l.off+used, data, l.off, low, high)
}

// checkCmd is fednode check. It changes nothing, and may run beside the party's process.
type checkCmd struct {
	State      string `required:"" placeholder:"DIR" help:"The state of an aggregator, a server or a client; of several clients of one process the folder of them all."`
	Federation string `placeholder:"FILE" help:"Of an aggregator: the federation, as the operator wrote it last."`
	Network    bool   `help:"Dial the aggregator, too: does its name lead anywhere, does it answer, does it know the party, does it speak this version? The party does not register."`
	formatFlag
}

// Run reads a state and says what is in order and what is not.
func (c *checkCmd) Run(ctx context.Context, s *streams) error {
	x, err := check.State(ctx, c.State, c.Federation, c.Network)
	if err != nil {
		return err
	}
	if err = cli.PrintForm(s.out, c.Format, shown, "check", x); err == nil && x.Wrong > 0 {
		err = fmt.Errorf("%s: %d of %d findings are wrong", c.State, x.Wrong, len(x.Findings))
	}
	return err
}

// enrolledCmd is fednode enrolled. It reads files alone and changes nothing.
type enrolledCmd struct {
	State      string `required:"" placeholder:"DIR" help:"The state of a server or an aggregator, which have all parties, or of a client, which has itself. No process may be running on it."`
	Federation string `placeholder:"FILE" help:"Of an aggregator: the federation, as the operator wrote it last."`
}

// Run prints the list. Nothing in it is secret, and each reader verifies it.
func (c *enrolledCmd) Run(s *streams) error {
	list, err := c.list()
	if errors.Is(err, store.ErrLocked) {
		return cli.Misusef("--state %s: its process is running; stop it first", c.State)
	}
	if err != nil {
		return err
	}
	text, err := list.Encode()
	if err != nil {
		return err
	}
	_, err = s.out.Write(append(text, '\n'))
	return err
}

func (c *enrolledCmd) list() (*admission.List, error) {
	m, err := admission.ReadFile(filepath.Join(c.State, party.MembershipFile), admission.ParseMembership)
	switch {
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case c.Federation == "":
		return nil, cli.Misusef("--state %s: it does not belong to a server or a client that has enrolled; an aggregator's needs --federation", c.State)
	}
	var f *admission.Federation
	if m != nil {
		f = &m.Federation
	} else if f, err = admission.ReadFile(c.Federation, admission.ParseFederation); err != nil {
		return nil, err
	}
	r, err := party.ReadRegistry(filepath.Join(c.State, party.RegistryFile), f)
	if err != nil {
		return nil, err
	}
	list := *r.List()
	// A client keeps no signatures of others. A server that has not been shown a list knows itself alone.
	if m != nil && (m.Enrolment.Ticket.Place.Role == protocol.Client || len(list.Enrolments) == 0) {
		own := &m.Enrolment
		for _, e := range list.Enrolments { // as the operator's latest key signs it
			if e.Ticket.Place == own.Ticket.Place {
				own = e
			}
		}
		list.Enrolments = []*admission.Enrolment{own}
	}
	return &list, list.Verify(f.Operator)
}

func init() { // times in all lines of logs are in UTC
	zerolog.TimeFieldFormat, zerolog.TimestampFunc = "2006-01-02T15:04:05.000Z07:00", func() time.Time { return time.Now().UTC() }
}

// streams is where a command writes, and how it was called.
type streams struct {
	out, err io.Writer
	level    zerolog.Level   // of the least that is logged
	args     []string        // for the first line of a log
	json     *zerolog.Logger // the log of the process, once it logs in JSON
}

// log is the log of a process: text for people on a terminal, JSON elsewhere. Errors of libp2p are in it.
func (s *streams) log(role string) zerolog.Logger {
	w := s.err
	f, ok := w.(*os.File)
	people := ok && term.IsTerminal(int(f.Fd()))
	if people {
		w = zerolog.ConsoleWriter{Out: f, TimeFormat: "15:04:05.000", NoColor: os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"}
	}
	log := zerolog.New(w).Level(s.level).With().Timestamp().Str("role", role).Logger()
	if !people {
		s.json = &log
	}
	level := zerolog.ErrorLevel // of libp2p: the rest is about connections, which the roles log themselves
	if s.level <= zerolog.DebugLevel {
		level = s.level
	}
	gologshim.SetDefaultHandler(zerolog.NewSlogHandler(log.Level(level)))
	return log
}

// starts logs the version, the federation and the call, without ids of users.
func (s *streams) starts(log *zerolog.Logger, f *admission.Federation) {
	var flags []string
	for k, arg := range s.args {
		name, _, whole := strings.Cut(arg, "=")
		switch user := strings.HasPrefix(name, "--user"); {
		case user && whole:
			arg = name + "=..."
		case k > 0 && strings.HasPrefix(s.args[k-1], "--user") && !strings.Contains(s.args[k-1], "="):
			arg = "..."
		}
		flags = append(flags, arg)
	}
	log.Info().Stringer("version", version.Get()).Str("federation", f.Name).Hex("federation_id", f.ID[:]).Strs("call", flags).Msg("starts")
}

// ended logs the error that a process ends with; false if the process does not log in JSON.
func (s *streams) ended(err error, code int) bool {
	if s.json == nil {
		return false
	}
	level := zerolog.ErrorLevel
	if errors.Is(err, errStopped) {
		level = zerolog.InfoLevel
	}
	s.json.WithLevel(level).Err(err).Int("exit", code).Msg("ended")
	return true
}
