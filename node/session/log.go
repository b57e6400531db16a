package session

import (
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/protocol"
)

// levels of the events of roles: what an operator must see, and what happens all
// the time.
func level(k protocol.EventKind) zerolog.Level {
	switch k {
	case protocol.WorkFailed, protocol.InputUnusable:
		return zerolog.ErrorLevel
	case protocol.RoundAborted, protocol.RoundHeld, protocol.PlanRefused, protocol.SumRefused, protocol.ClientExcluded, protocol.ClientSilent:
		return zerolog.WarnLevel
	case protocol.MessageIgnored, protocol.StageClosed:
		return zerolog.DebugLevel
	default:
		return zerolog.InfoLevel
	}
}

// logEvents writes what roles report: kind, round, party and stage, and why.
// No event carries a rating, a vector or a secret.
func logEvents(log *zerolog.Logger, events []protocol.Event) {
	for _, e := range events {
		line := log.WithLevel(level(e.Kind)).Stringer("event", e.Kind).Uint64("round", e.Round).Stringer("party", e.Party)
		switch e.Kind {
		case protocol.ClientLost, protocol.MessageIgnored, protocol.StageClosed:
			line = line.Stringer("stage", e.Stage)
		default: // of no stage
		}
		line.Err(e.Err).Send()
	}
}
