package entropy_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"testing"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
)

func ExampleNew() {
	src := simulated.New(1, "client/0")
	b := make([]byte, 4)
	for range 2 { // the same four repeat the same bytes
		if _, err := io.ReadFull(src.Stream("noise-seed", 1), b); err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%x\n", b)
	}
	// Output:
	// 0e51d800
	// 0e51d800
}

// The vectors were computed outside Go: the keys with Python's hashlib, the keystream with openssl
// enc -aes-128-ctr. They pin the bytes that a recorded seed replays.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		seed         uint64
		party, label string
		n            uint64
		want         string
	}{
		{1, "client/0", "noise-seed", 1, "0e51d800bcbc335540260a7df3a1911a3c93ae734f8bf7d49de7fa44cd4b26db"},
		{1<<64 - 1, "", "", 0, "d04e99e55b033c1917040b98abe10f7b80bbc57b1d3c50de66281b903f758531"},
	} {
		if got := stream(t, c.seed, c.party, c.label, c.n); got != c.want {
			t.Errorf("(%d, %q, %q, %d):\n got %s\nwant %s", c.seed, c.party, c.label, c.n, got, c.want)
		}
	}
}

// Changing one of the four arguments, or moving bytes between neighbours, gives another stream:
// equal streams have the probability 2^-256.
func TestStreamsDiffer(t *testing.T) {
	type key struct {
		seed         uint64
		party, label string
		n            uint64
	}
	keys := []key{
		{1, "client/1", "noise", 1},
		{2, "client/1", "noise", 1},
		{1 << 56, "client/1", "noise", 1},
		{1, "client/2", "noise", 1},
		{1, "client/11", "noise", 1},
		{1, "client/1", "noises", 1},
		{1, "client/1noise", "", 1},
		{1, "client/", "1noise", 1},
		{1, "", "client/1noise", 1},
		{1, "client/1", "noise", 2},
		{1, "client/1", "noise", 1 << 56},
		{1, "client/1", "noise\x00", 1},
		{1, "client/1\x00", "noise", 1},
	}
	seen := make(map[string]key)
	for _, k := range keys {
		b := stream(t, k.seed, k.party, k.label, k.n)
		if again := stream(t, k.seed, k.party, k.label, k.n); again != b {
			t.Errorf("%+v gives %s, then %s", k, b, again)
		}
		if other, ok := seen[b]; ok {
			t.Errorf("%+v and %+v give the same stream", k, other)
		}
		seen[b] = k
	}
}

// Streams of one source do not depend on the streams opened before, or on how they are interleaved.
func TestStreamsDoNotInterfere(t *testing.T) {
	src := simulated.New(1, "client/0")
	a, b := src.Stream("a", 1), src.Stream("b", 1)
	var got [2][]byte
	for range 32 {
		for i, r := range []io.Reader{a, b} {
			one := make([]byte, 1)
			if _, err := io.ReadFull(r, one); err != nil {
				t.Fatal(err)
			}
			got[i] = append(got[i], one...)
		}
	}
	for i, label := range []string{"a", "b"} {
		if want := stream(t, 1, "client/0", label, 1); hex.EncodeToString(got[i]) != want {
			t.Errorf("stream %q interleaved: %x, alone %s", label, got[i], want)
		}
	}
}

func stream(t *testing.T, seed uint64, party, label string, n uint64) string {
	t.Helper()
	b := make([]byte, 32)
	if _, err := io.ReadFull(simulated.New(seed, party).Stream(label, n), b); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(b)
}

// The n-th streams of a numbered source come from the source of n, and from no other.
func TestNumbered(t *testing.T) {
	numbered := simulated.Numbered(func(n uint64) entropy.Source { return simulated.New(n, "client/0") })
	for n := range uint64(3) {
		got := make([]byte, 32)
		if _, err := io.ReadFull(numbered.Stream("noise", n), got); err != nil {
			t.Fatal(err)
		}
		if want := stream(t, n, "client/0", "noise", n); hex.EncodeToString(got) != want {
			t.Errorf("stream %d is %x, want %s", n, got, want)
		}
	}
}
