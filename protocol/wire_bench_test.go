package protocol_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// upload is the masked input of 213,517 coordinates in a ring of 29 bits.
func upload() (*protocol.MaskedInput, wire.Limits) {
	m := &protocol.MaskedInput{Round: 1, Masked: [][]byte{fill(774000, 0)}}
	l := goldenLimits()
	l.Bytes[protocol.KindMaskedInput] = 1 << 20
	return m, l
}

// ofCopy compares the time of f with the time of copying n bytes in the same run: with copy, and
// into fresh memory, which data that outlive their source need.
func ofCopy(b *testing.B, n int, f func()) {
	src, dst := fill(n, 0), make([]byte, n)
	b.SetBytes(int64(n))
	b.ReportAllocs()
	var copying, cloning time.Duration
	for b.Loop() {
		f()
		b.StopTimer()
		start := time.Now()
		copy(dst, src)
		mid := time.Now()
		sink = bytes.Clone(src)
		copying, cloning = copying+mid.Sub(start), cloning+time.Since(mid)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(copying), "of-copy")
	b.ReportMetric(float64(b.Elapsed())/float64(cloning), "of-clone")
}

var sink []byte

func BenchmarkMarshal(b *testing.B) {
	m, _ := upload()
	ofCopy(b, protocol.Size(m), func() {
		if _, err := wire.Marshal(m); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkUnmarshal(b *testing.B) {
	m, l := upload()
	src, err := wire.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	ofCopy(b, protocol.Size(m), func() {
		if _, err := wire.Unmarshal(protocol.KindMaskedInput, src, l); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	m, l := upload()
	src, err := wire.AppendFrames(nil, m)
	if err != nil {
		b.Fatal(err)
	}
	ofCopy(b, protocol.Size(m), func() {
		if _, err := wire.NewReader(bytes.NewReader(src), l).Read(); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkRoster is the longest list: a thousand members in active mode.
func BenchmarkRoster(b *testing.B) {
	m := &protocol.Roster{Round: 1, Clients: 1000, Members: make([]protocol.Member, 1000)}
	for i := range m.Members {
		m.Members[i] = protocol.Member{Client: protocol.ClientID(i), Keys: protocol.Keys{Signature: fill(64, i)}}
	}
	l := goldenLimits()
	l.Clients, l.Bytes[protocol.KindRoster] = 1000, 1<<20
	src, err := wire.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	ofCopy(b, protocol.Size(m), func() {
		if _, err := wire.Unmarshal(protocol.KindRoster, src, l); err != nil {
			b.Fatal(err)
		}
	})
}
