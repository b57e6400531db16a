package node

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/node/admission"
)

// Protected says whether the connection manager leaves a peer alone.
func (a *Aggregator) Protected(id peer.ID) bool {
	return a.host.ConnManager().IsProtected(id, "registered")
}

// Connected are the peers that the aggregator has connections of.
func (a *Aggregator) Connected() []peer.ID { return a.host.Network().Peers() }

// Room says how many connections there may be of whom it is not known yet who they are.
func (a *Aggregator) Room() int { return roomFor(a.cfg.Federation.Clients + 1).unknown }

// Unknown says how many there are.
func (a *Aggregator) Unknown() (n int) {
	_ = a.host.Network().ResourceManager().ViewTransient(func(s network.ResourceScope) error {
		n = s.Stat().NumConnsInbound
		return nil
	})
	return n
}

// Visits says whether it is counted how often a peer opens a stream.
func (a *Aggregator) Visits(id peer.ID) bool {
	a.streams.mu.Lock()
	defer a.streams.mu.Unlock()
	return a.streams.limits[id] != nil
}

// skewed is a clock that is ahead of the machine's.
func skewed(by time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(by) } }

// Skew has the aggregator's clock be wrong, before anybody dials.
func (a *Aggregator) Skew(by time.Duration) { a.now = skewed(by) }

// Skew has the client's clock be wrong, before it runs.
func (c *Client) Skew(by time.Duration) { c.now = skewed(by) }

// Skew has the server's clock be wrong, before it runs.
func (s *Server) Skew(by time.Duration) { s.driver.now = skewed(by) }

// Over has the aggregator's host use other transports.
func (c *AggregatorConfig) Over(o ...libp2p.Option) { c.over = o }

// Over has the relay's hosts use other transports.
func (c *RelayConfig) Over(o ...libp2p.Option) { c.over = o }

// Over has the client's host use other transports.
func (c *ClientConfig) Over(o ...libp2p.Option) { c.over = o }

// Over has the server's host use other transports.
func (c *ServerConfig) Over(o ...libp2p.Option) { c.over = o }

// Over has the member's host use other transports.
func (c *AlignConfig) Over(o ...libp2p.Option) { c.over = o }

// EnrolOver is Enrol with other transports.
func EnrolOver(ctx context.Context, i *admission.Invitation, identity admission.PrivateKey, log zerolog.Logger, o ...libp2p.Option) (*admission.Membership, error) {
	return enrolOver(ctx, i, identity, log, o...)
}
