// Package nodetest has what tests of package node and of its rooms share.
package nodetest

import (
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
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
