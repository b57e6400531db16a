package node

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/node/session"
)

// Enrol redeems an invitation for an identity with the aggregator that it names, over a
// connection on which the party is known by the ticket's key. It dials until the
// aggregator answers or the context ends. A refusal wraps ErrRefused. Doing it again
// with the same identity is no error, so it may be repeated after a crash.
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
