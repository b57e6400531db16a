package command

import (
	"io"
	"os"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

type streams struct {
	out, err io.Writer
	level    zerolog.Level // of the least that is logged
}

// log is the log of a process: text for people on a terminal, JSON elsewhere.
func (s streams) log(role string) zerolog.Logger {
	w := s.err
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		w = zerolog.ConsoleWriter{Out: f, NoColor: os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"}
	}
	return zerolog.New(w).Level(s.level).With().Timestamp().Str("role", role).Logger()
}
