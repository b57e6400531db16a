package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/node/session"
)

// Enrol redeems an invitation for an identity with the aggregator that it names, over a connection on which the party is known by the
// ticket's key. It dials until the aggregator answers or the context ends. A refusal wraps ErrRefused. Doing it again with the same
// identity is no error, so it may be repeated after a crash.
func Enrol(ctx context.Context, i *admission.Invitation, identity admission.PrivateKey, log zerolog.Logger) (*admission.Membership, error) {
	return enrolOver(ctx, i, identity, log)
}

func enrolOver(ctx context.Context, i *admission.Invitation, identity admission.PrivateKey, log zerolog.Logger, over ...libp2p.Option) (*admission.Membership, error) {
	m, err := i.Accept(identity)
	if err != nil {
		return nil, err
	}
	text, err := m.Enrolment.Encode()
	if err != nil {
		return nil, err
	}
	l, err := peer.NewConn(i.Key, []admission.Contact{i.Contact}, peer.EnrolID, log, over...)
	if err != nil {
		return nil, err
	}
	if err = l.Keep(ctx, func(_ context.Context, s network.Stream) error { return bring(s, text) }); err != nil {
		return nil, err
	}
	return m, nil
}

// bring sends an enrolment and hears what becomes of it.
func bring(s network.Stream, enrolment []byte) error {
	peer.Within(s, peer.RegisterTimeout)
	if err := session.Say(s, &session.Message{Enrol: enrolment}); err != nil {
		return err
	}
	switch answer, err := session.Hear(s, session.NoticeSize); {
	case errors.Is(err, session.ErrRefused):
		return peer.Fatal(err)
	case err != nil:
		return err
	case answer.Ready == nil:
		return session.ErrNotice
	}
	return peer.ErrEnd
}

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

// revoke applies the operator's newest revocations, which the aggregator could withhold. If they are new, this peer registers again: it
// does not accept a list with that party, and so takes no part in a sum with it. A peer that is itself revoked fails with
// admission.ErrRevoked.
func revoke(c *peer.Conn, log *zerolog.Logger, own *admission.Membership, r *admission.Registry, v *admission.Revocations, failed chan<- error) error {
	known := r.Revocations()
	out, err := r.Revoke(v)
	for i := range out {
		log.Warn().Stringer("revoked", out[i].Ticket.Place).Msg("revoked by the operator")
	}
	now := r.Revocations()
	if gone := now.Check(&own.Enrolment); gone != nil {
		fail(failed, fmt.Errorf("this party itself: %w", gone))
	}
	if known.Follows(now) != nil { // a client does not know who is out, since it has a part of the list
		c.Cut()
	}
	return err
}

// fail reports what ends a process, unless something else has.
func fail(failed chan<- error, err error) {
	select {
	case failed <- err:
	default:
	}
}

// untilFailed is a context that ends with an error that was reported.
func untilFailed(ctx context.Context, failed <-chan error) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case err := <-failed:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
