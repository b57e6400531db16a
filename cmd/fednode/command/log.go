package command

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/node/admission"
)

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
