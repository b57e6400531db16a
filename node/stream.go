package node

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// ProtocolID is the libp2p protocol ID of the stream between a peer and the aggregator.
const ProtocolID = "/fedsim/1.0.0"

// Time limits of the network, apart from those of stages, which are the
// aggregator's setting.
const (
	// dialTimeout is how long a connection may take to come about.
	dialTimeout = 20 * time.Second
	// registerTimeout is how long a peer may take over each step of registering.
	registerTimeout = 30 * time.Second
	// frameTimeout is how long a frame may take to be written: a peer that reads
	// more slowly than 256 KiB in this time is let go.
	frameTimeout = 30 * time.Second
	// redialMin and redialMax bound the pause before a broken connection is dialled
	// again; it doubles from one to the other, with jitter.
	redialMin = 250 * time.Millisecond
	redialMax = 15 * time.Second
)

// EnrolID is the libp2p protocol ID of the stream on which an invited party enrols.
const EnrolID = "/fedsim/enrol/1.0.0"

// RelayID is the libp2p protocol ID of the stream between a relay and the aggregator.
const RelayID = "/fedsim/relay/1.0.0"

// AlignID names the stream on which rows of users are aligned, see package align. The
// aggregator carries sealed envelopes from one member to another, and keeps none for who
// is not there: what is not acknowledged is sent again.
const AlignID = "/fedsim/align/1.0.0"

// ignoreEOF is the error of a stream that was not simply closed.
func ignoreEOF(err error) error {
	if supplanted(err) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, network.ErrReset) {
		return nil
	}
	return err
}

// endWriting tells the peer that nothing follows. libp2p gives the muxer's own error where the peer
// has reset the stream, which here is what a reset is elsewhere.
func endWriting(s network.Stream) error {
	if err := s.CloseWrite(); err != nil {
		return fmt.Errorf("%w: %w", network.ErrReset, err)
	}
	return nil
}

// within gives a step of registering its time.
func within(s network.Stream, d time.Duration) {
	_ = s.SetDeadline(time.Now().Add(d)) // a stream that takes none fails when it is used
}
