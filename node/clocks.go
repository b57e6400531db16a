package node

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/node/session"
)

// clocks are the times of a registration, by two clocks. The dates of charges come from the machine's clock. A client
// compares it with the aggregator's clock.
type clocks struct {
	own   time.Time
	other time.Time // in whole minutes; zero: it is not known
}

// mostApart bounds the difference of the clocks. The shortest period of a ceiling is an hour.
const mostApart = 5 * time.Minute

// apart returns how far the machine's clock is ahead now. A clock that was put right since the registration counts as it is now.
func (c *clocks) apart(now time.Time) time.Duration {
	if c.other.IsZero() {
		return 0
	}
	return now.Round(0).Sub(c.other.Add(now.Sub(c.own))) // Sub of two readings ignores that the clock was set
}

// check returns an error if a ceiling cannot be kept, since the clock by which charges are dated is wrong.
func (c *clocks) check(now time.Time) error {
	d := c.apart(now)
	if d.Abs() <= mostApart+time.Minute {
		return nil
	}
	return &session.DeclineError{Kind: session.DeclineWaits, Err: fmt.Errorf("node: the clock of this machine, %s, is %s. A --ceiling counts by the dates of charges. "+
		"Set the clock, or have the aggregator's set, and start the client again", now.UTC().Format(time.RFC3339), session.Ahead(d.Round(time.Minute), "the aggregator's"))}
}

// compareClocks takes the time at the aggregator, and tells the owner if charges are dated by a clock that is wrong.
func (c *Client) compareClocks(other time.Time) {
	now := c.now()
	c.clocks = clocks{own: now, other: other}
	warnApart(&c.cfg.Log, c.cfg.Observer, now, other)
	if err := c.clocks.check(now); err != nil {
		c.cfg.Log.Warn().Err(err).Msg("one of two clocks is wrong; a client with a --ceiling declines sessions until they agree")
	}
	if last := c.cfg.Ledger.Latest(); last.After(now.Add(mostApart)) {
		c.cfg.Log.Warn().Time("last_charge", last).Time("now", now).
			Msg("charges of this client's ledger are dated after the present: the clock was ahead then, or is behind now. New charges get the later date, and count towards a --ceiling until its period after that date")
	}
}

// warnApart names the difference of the clocks. The aggregator's is known in whole minutes, so that the difference is known to half a minute.
func warnApart(log *zerolog.Logger, o session.Observer, now, other time.Time) {
	if other.IsZero() {
		return
	}
	by := now.Sub(other) - 30*time.Second
	o.ClockAhead(by)
	if by.Abs() > session.ClockApart+30*time.Second {
		log.Warn().Str("this_machine", session.Ahead(by, "the aggregator")).Msg("the clock of this machine or of the aggregator is wrong; have both set by NTP")
	}
}
