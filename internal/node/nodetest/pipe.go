// Package nodetest has what tests of package node and of its rooms share.
package nodetest

import (
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Pipe is a stream in memory, with deadlines by the test's clock. The code under test must
// not call any other method of a stream.
type Pipe struct {
	network.Stream
	End net.Conn
}

func (p Pipe) Read(b []byte) (int, error)                   { return p.End.Read(b) }
func (p Pipe) Write(b []byte) (int, error)                  { return p.End.Write(b) }
func (p Pipe) CloseWrite() error                            { return nil }
func (p Pipe) ResetWithError(network.StreamErrorCode) error { return p.End.Close() }
func (p Pipe) Reset() error                                 { return p.End.Close() }
func (p Pipe) SetDeadline(t time.Time) error                { return p.End.SetDeadline(t) }
func (p Pipe) SetReadDeadline(t time.Time) error            { return p.End.SetReadDeadline(t) }
func (p Pipe) SetWriteDeadline(t time.Time) error           { return p.End.SetWriteDeadline(t) }

// Terms returns the terms of a session in which four clients add up eight numbers three times.
func Terms() session.Terms {
	return session.Terms{Session: protocol.SessionID{1}, Cohort: protocol.Cohort{Clients: 4, Tolerance: 0.25}, Mode: secagg.SemiHonest,
		StageTimeout: time.Second, Tail: time.Second,
		Steps: protocol.Schedule{{Rounds: 3, Phase: "sums", Model: 1 << 20,
			Releases: []protocol.Release{{Name: "v", Len: 8, L2: 1, MaxNonZero: 8, Scale: 16, Width: 32}}}}}
}
