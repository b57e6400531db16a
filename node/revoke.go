package node

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
)

// revoke applies the operator's newest revocations, which the aggregator could withhold.
// If they are new, this peer registers again: it does not accept a list with that
// party, and so takes no part in a sum with it. A peer that is itself revoked fails with
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
