package node

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/node/admission"
)

// skewed is a clock that is ahead of the machine's.
func skewed(by time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(by) } }

// Skew has the client's clock be wrong, before it runs.
func (c *Client) Skew(by time.Duration) { c.now = skewed(by) }

// Skew has the server's clock be wrong, before it runs.
func (s *Server) Skew(by time.Duration) { s.driver.Now = skewed(by) }

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
