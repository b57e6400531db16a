package external

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// An array is the same after it was written and read.
func TestArraysThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, k := rapid.IntRange(0, 5).Draw(t, "rows"), rapid.IntRange(1, 4).Draw(t, "cols")
		a := array{name: "x", shape: []int{n, k}, float: rapid.SliceOfN(rapid.Float64(), n*k, n*k).Draw(t, "float")}
		b := array{name: "y", shape: []int{n}, whole: rapid.SliceOfN(rapid.Int64(), n, n).Draw(t, "whole")}
		var buffer bytes.Buffer
		if err := (message{Type: "t", arrays: []array{a, b}}).write(&buffer); err != nil {
			t.Fatal(err)
		}
		m, err := read(bufio.NewReader(&buffer), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := m.named("x")
		whole, _ := m.named("y")
		if !slices.Equal(got.float, a.float) || !slices.Equal(got.shape, a.shape) || !slices.Equal(whole.whole, b.whole) {
			t.Errorf("%v %v, want %v %v", got, whole, a, b)
		}
	})
}

func TestLargeAndWrongRepliesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"large": `{"type":"t","frames":[{"name":"x","bytes":1000000}]}` + "\n", "below zero": `{"type":"t","frames":[{"name":"x","bytes":-1}]}` + "\n",
		"no JSON": "hello\n", "no NPY": `{"type":"t","frames":[{"name":"x","bytes":3}]}` + "\nabc", "long": string(bytes.Repeat([]byte("x"), mostHeader+2)),
	} {
		if _, err := read(bufio.NewReader(bytes.NewReader([]byte(text))), 1000); !errors.Is(err, errProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The expected vectors are written by hand.
func TestSparseVectors(t *testing.T) {
	reply := func(start, index []int64, value []float64) message {
		return message{arrays: []array{{name: "start", whole: start}, {name: "index", whole: index}, {name: "value", float: value}}}
	}
	got, err := vectors(reply([]int64{0, 2, 2}, []int64{1, 3}, []float64{5, 6}), 2, 4)
	want := []protocol.Vector{{Index: []uint32{1, 3}, Value: []float64{5, 6}}, {Index: []uint32{}, Value: []float64{}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, m := range map[string]message{
		"descending": reply([]int64{0, 2}, []int64{3, 1}, []float64{5, 6}), "twice": reply([]int64{0, 2}, []int64{1, 1}, []float64{5, 6}),
		"beyond": reply([]int64{0, 1}, []int64{4}, []float64{5}), "below": reply([]int64{0, 1}, []int64{-1}, []float64{5}),
		"short": reply([]int64{0, 1}, []int64{1, 2}, []float64{5}), "overlap": reply([]int64{0, 3, 2}, []int64{1, 2}, []float64{5, 6}),
		"nothing": {},
	} {
		n := 1
		if name == "overlap" {
			n = 2
		}
		if list, err := vectors(m, n, 4); !errors.Is(err, errProtocol) {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

// A block is computed once for all its users, and again after it was dropped.
func TestBlocksAreComputedOnce(t *testing.T) {
	b := blocks[int]{size: 3, most: 2}
	var asked [][2]int
	compute := func(from, to int) (list []int, err error) {
		asked = append(asked, [2]int{from, to})
		for u := from; u < to; u++ {
			list = append(list, 10*u)
		}
		return list, nil
	}
	for u := range 8 {
		if got, err := b.one(job{round: 1}, u, 8, compute); got != 10*u || err != nil {
			t.Errorf("user %d: %d, %v", u, got, err)
		}
	}
	if want := [][2]int{{0, 3}, {3, 6}, {6, 8}}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	if _, err := b.one(job{round: 2}, 0, 8, compute); err != nil || len(asked) != 4 {
		t.Errorf("another round: %d calls, %v", len(asked), err)
	}
}

// ε compares with an empty record, so that a user without ratings must add nothing, whatever the program says.
func TestUserWithoutRatingsAddsNothing(t *testing.T) {
	t.Setenv(Variable, os.Args[0])
	t.Setenv("FEDSIM_TEST_EXTERNAL", "empty")
	c, err := config.Resolve([]config.Setting{{Key: "rounds", Value: "1", Origin: "--rounds"}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := open(&algorithm.Setup{Config: c, Data: &dataset.Set{Ratings: dataset.Ratings{Items: 2}, ItemIDs: []string{"a", "b"}, Min: 1, Max: 5}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := x.contribute([]model.Ratings{{}, {Items: []int32{1}, Values: []float32{3}}}, -1, &sent{matrix: x.start}, 1, &x.counts)
	want := []protocol.Vector{{Index: []uint32{}}, {Index: []uint32{0, 1}, Value: []float64{1, 1}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if c := x.Clipped(); c != (algorithm.Clipped{Vectors: 2}) {
		t.Errorf("%+v", c)
	}
}
