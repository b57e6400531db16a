package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/fedsim/fedsim/cmd/fednode/internal/check"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// checkCmd is fednode check. It changes nothing, and may run beside the party's process.
type checkCmd struct {
	State      string `required:"" placeholder:"DIR" help:"The state of an aggregator, a server or a client; of several clients of one process the folder of them all."`
	Federation string `placeholder:"FILE" help:"Of an aggregator: the federation, as the operator wrote it last."`
	Network    bool   `help:"Dial the aggregator, too: does its name lead anywhere, does it answer, does it know the party, does it speak this version? The party does not register."`
	Format     string `enum:"table,json" default:"table" help:"table or json."`
}

// Run reads a state and says what is in order and what is not.
func (c *checkCmd) Run(ctx context.Context, s *streams) error {
	x, err := check.State(c.State, c.Federation)
	if err == nil && c.Network {
		err = x.Network(ctx)
	}
	if err != nil {
		return err
	}
	if c.Format == "json" {
		err = cli.PrintJSON(s.out, x)
	} else {
		err = x.Print(s.out)
	}
	if err == nil && x.Wrong > 0 {
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
	list := r.List()
	// A client keeps no signatures of others. A server that has not been shown a list knows itself alone.
	if m != nil && (m.Enrolment.Ticket.Place.Role == protocol.Client || len(list.Enrolments) == 0) {
		own := m.Enrolment
		for _, e := range list.Enrolments { // as the operator's latest key signs it
			if e.Ticket.Place == own.Ticket.Place {
				own = e
			}
		}
		list.Enrolments = []admission.Enrolment{own}
	}
	return list, list.Verify(f.Operator)
}

// timeFormat is the format of times in all lines of logs, in UTC.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

func init() {
	zerolog.TimeFieldFormat, zerolog.TimestampFunc = timeFormat, func() time.Time { return time.Now().UTC() }
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
