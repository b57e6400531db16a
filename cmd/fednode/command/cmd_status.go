package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/ops"
	"github.com/fedsim/fedsim/node/store"
)

type statusCmd struct {
	Ops        string   `default:"127.0.0.1:9464" help:"Where the process shows it: its own --ops."`
	State      string   `placeholder:"DIR" help:"Instead of a process: the state of a client that is not running. Tells its owner what was agreed to and spent."`
	MaxEpsilon *float64 `placeholder:"E" help:"With --state: the owner's limit, of which the rest is left. Default: the --max-epsilon of the client's last session."`
	Ready      bool     `help:"Exit with 1 unless the process is ready, and say what is missing: for HEALTHCHECK and scripts."`
	Missing    bool     `help:"Of an aggregator: print the enrolled clients that are not connected, one a line."`
	Format     string   `enum:"table,json" default:"table" help:"table or json."`
}

func (c *statusCmd) Run(ctx context.Context, s *streams) error {
	if c.State != "" && (c.Ready || c.Missing) {
		return cli.Misusef("--ready and --missing ask a process, by its --ops; --state reads files")
	}
	if c.State != "" {
		return c.owner(s)
	}
	status, err := ops.Fetch(ctx, c.Ops)
	if errors.Is(err, ops.ErrAddress) {
		return cli.Misusef("--ops: %w", err)
	}
	if errors.Is(err, ops.ErrSilent) {
		return fmt.Errorf("%w; say with --ops where the process shows its status, or read a client's own with --state", err)
	}
	if err != nil {
		return err
	}
	if c.Ready && !status.Ready {
		return fmt.Errorf("not ready: %s", cmp.Or(status.Trouble, "it has not registered with the aggregator"))
	}
	if c.Missing && status.Places == 0 {
		return cli.Misusef("--missing: %s is a %s, and only an aggregator knows who is enrolled", c.Ops, status.Role)
	}
	if c.Missing {
		if more := status.Away - len(status.Missing); more > 0 {
			fmt.Fprintf(s.err, "and %d more\n", more)
		}
		_, err = io.WriteString(s.out, strings.Join(append(status.Missing, ""), "\n"))
		return err
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.out, status)
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "role\t%s\nready\t%t\nsession\t%s\nround\t%d\nconnected\t%d\n",
		status.Role, status.Ready, cmp.Or(status.Session, "none yet"), status.Round, status.Connected)
	if status.Trouble != "" {
		fmt.Fprintf(t, "missing\t%s\n", status.Trouble)
	}
	if status.Places > 0 {
		fmt.Fprintf(t, "enrolled\t%d of %d\naway\t%d\n", status.Enrolled, status.Places, status.Away)
	}
	if e := status.Last; e != nil {
		fmt.Fprintf(t, "last event\t%s of the %s in round %d, %s", e.Kind, e.Party, e.Round, e.At.Format(time.RFC3339))
		if e.Error != "" {
			fmt.Fprintf(t, ": %s", e.Error)
		}
		fmt.Fprintln(t)
	}
	if err = t.Flush(); err != nil {
		return err
	}
	return printAccounts(s.out, status.Accounts...)
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
	if c.Format == "json" {
		return cli.PrintJSON(s.out, account)
	}
	return printAccounts(s.out, *account)
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

func printAccounts(w io.Writer, list ...store.Account) error {
	var b strings.Builder
	for i := range list {
		describeAccount(&b, &list[i])
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(t, b.String()); err != nil {
		return err
	}
	return t.Flush()
}

func describeAccount(b *strings.Builder, a *store.Account) {
	fmt.Fprintf(b, "place\t%s\n", a.Place)
	for _, s := range a.Sessions {
		fmt.Fprintf(b, "session\t%s, %s, since %s\n", s.Session, s.Algorithm, s.At.Format("2006-01-02 15:04"))
		fmt.Fprintf(b, "  consented to\t%s\n", s.Terms())
		fmt.Fprintf(b, "  spent\tepsilon %s in %d of %d rounds\n", store.RoundedUp(s.Spent), s.Charged, s.Rounds)
	}
	fmt.Fprintf(b, "in all\t%s\n", a.InAll())
	if a.Logged > 0 {
		fmt.Fprintf(b, "log\t%d entries at the end of the last session; %s shows an auditor each session, and no rating\n", a.Logged, party.ReceiptsFile)
	}
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
