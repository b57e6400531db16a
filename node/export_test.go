package node

import (
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// skewed is a clock that is ahead of the machine's.
func skewed(by time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(by) } }

// Skew has the client's clock be wrong, before it runs.
func (c *Client) Skew(by time.Duration) { c.now = skewed(by) }

// Skew has the server's clock be wrong, before it runs.
func (s *Server) Skew(by time.Duration) { s.driver.Now = skewed(by) }

// Over has the member's host use other transports.
func (m *Member) Over(o ...libp2p.Option) { m.over = o }

// Account is the account of a job, with a cache of its own.
func (j *Job) Account(durable *store.Ledger, now time.Time) error {
	_, err := j.account(durable, new(dp.Cache), now)
	return err
}

// ClocksApart returns why a ceiling cannot be kept: own and other are the clocks at the registration, now is the own clock later.
func ClocksApart(own, other, now time.Time) error { return (&clocks{own, other}).check(now) }

// PaceOf returns the fixed time of answers for a measured time.
func PaceOf(measured time.Duration) time.Duration {
	log := zerolog.Nop()
	p := &pace{Pacing: new(Pacing), log: &log}
	p.took("phase", measured)
	return p.current
}

// RevocationOf revokes an enrolled party, and bars its key from coming back.
func RevocationOf(e *admission.Enrolment) admission.Revocation {
	return admission.Revocation{Place: e.Ticket.Place, Serial: e.Ticket.Serial, Identity: e.Identity}
}
