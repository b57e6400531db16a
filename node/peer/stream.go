package peer

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// The protocol IDs of libp2p's streams.
const (
	// ProtocolID is for the stream between a peer and the aggregator.
	ProtocolID = "/fedsim/1.0.0"
	// EnrolID is for the stream on which an invited party enrols.
	EnrolID = "/fedsim/enrol/1.0.0"
	// RelayID is for the stream between a relay and the aggregator.
	RelayID = "/fedsim/relay/1.0.0"
	// AlignID is for the stream on which rows of users are aligned. The aggregator
	// carries sealed envelopes from one member to another, and keeps none for who
	// is not there: what is not acknowledged is sent again.
	AlignID = "/fedsim/align/1.0.0"
)

// Time limits of the network. The aggregator sets the time limits of stages.
const (
	// DialTimeout bounds the time in which a connection comes about.
	DialTimeout = 20 * time.Second
	// RegisterTimeout bounds each step of registering.
	RegisterTimeout = 30 * time.Second
	// RedialMax bounds the pause before a broken connection is dialled again. The pause doubles
	// from redialMin, with jitter.
	RedialMax = 15 * time.Second
	redialMin = 250 * time.Millisecond
)

// Carried is the time that bytes take on a line that is just fast enough not to be cut.
func Carried(bytes int) time.Duration { return time.Duration(bytes) * time.Second / leastRate }

// IgnoreEOF is the error of a stream that was not simply closed.
func IgnoreEOF(err error) error {
	if supplanted(err) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, network.ErrReset) {
		return nil
	}
	return err
}

// EndWriting tells the peer that nothing follows. If the peer has reset the stream, libp2p returns
// the muxer's own error. EndWriting returns the error that a reset gives elsewhere.
func EndWriting(s network.Stream) error {
	if err := s.CloseWrite(); err != nil {
		return fmt.Errorf("%w: %w", network.ErrReset, err)
	}
	return nil
}

// Within gives a step of registering its time.
func Within(s network.Stream, d time.Duration) {
	_ = s.SetDeadline(time.Now().Add(d)) // a stream that takes none fails when it is used
}
