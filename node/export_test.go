package node

import "time"

// skewed is a clock that is ahead of the machine's.
func skewed(by time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(by) } }

// Skew has the aggregator's clock be wrong, before anybody dials.
func (a *Aggregator) Skew(by time.Duration) { a.now = skewed(by) }

// Skew has the client's clock be wrong, before it runs.
func (c *Client) Skew(by time.Duration) { c.now = skewed(by) }

// Skew has the server's clock be wrong, before it runs.
func (s *Server) Skew(by time.Duration) { s.driver.now = skewed(by) }
