package protocol_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/protocol"
)

// Two items of three have a row of two numbers each: written out, and as multiples
// of one row.
func ExampleVector() {
	for _, v := range []protocol.Vector{
		{Index: []uint32{0, 2}, Block: 2, Value: []float64{1, 2, 3, 6}},
		{Index: []uint32{0, 2}, Block: 2, Factor: []float64{1, 3}, Value: []float64{1, 2}},
	} {
		fmt.Print(v.Validate(6), ":")
		for part := range v.Parts() {
			fmt.Print(" ", part)
		}
		fmt.Println()
	}
	// Output:
	// <nil>: [1 2 3 6]
	// <nil>: [1 2 3 6]
}

// Multiples of a row come in parts of whole rows: all of them, in order, whether a part has many
// rows, one row, or rows of no numbers.
func TestPartsOfMultiples(t *testing.T) {
	for _, c := range []struct{ rows, length int }{{0, 3}, {1, 1}, {5, 100}, {1000, 3}, {3, 700}, {4, 0}} {
		v := protocol.Vector{Index: []uint32{}, Factor: make([]float64, c.rows), Value: make([]float64, c.length)}
		for a := range v.Value {
			v.Value[a] = float64(a + 1)
		}
		var want, got []float64
		for i := range v.Factor {
			v.Factor[i] = float64(i) - 2
			for _, x := range v.Value {
				want = append(want, v.Factor[i]*x)
			}
		}
		for part := range v.Parts() {
			if c.length > 0 && len(part)%c.length != 0 {
				t.Errorf("%+v: a part of %d numbers", c, len(part))
			}
			got = append(got, part...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: parts hold %v, want %v", c, got, want)
		}
	}
}

// Parts stop when they are told to.
func TestPartsStop(t *testing.T) {
	for _, v := range []protocol.Vector{{Value: []float64{1, 2}}, {Index: []uint32{0, 1}, Factor: []float64{1, 2}, Value: []float64{1}}} {
		for part := range v.Parts() {
			if part[0] != 1 {
				t.Errorf("%+v goes on with %v", v, part)
			}
			break
		}
	}
}

// A vector that does not fit the release, or itself, is refused, and so are integers of the same
// places. The error reveals nothing of the owner's.
func TestShape(t *testing.T) {
	const most = math.MaxUint32
	for _, c := range []struct {
		name   string
		index  []uint32
		block  int
		listed int
		ok     bool
	}{
		{"dense", nil, 0, 12, true},
		{"dense, too short", nil, 0, 11, false},
		{"dense, too long", nil, 0, 13, false},
		{"dense, nothing", nil, 0, 0, false},
		{"dense, with a block", nil, 1, 12, false},
		{"dense, with a block of all", nil, 12, 12, false},
		{"empty", []uint32{}, 0, 0, true},
		{"empty, in blocks", []uint32{}, 4, 0, true},
		{"values without an index", []uint32{}, 0, 1, false},
		{"coordinates", []uint32{0, 7, 11}, 0, 3, true},
		{"blocks of one", []uint32{0, 7, 11}, 1, 3, true},
		{"coordinate beyond", []uint32{12}, 0, 1, false},
		{"largest coordinate", []uint32{most}, 0, 1, false},
		{"coordinates twice", []uint32{7, 7}, 0, 2, false},
		{"coordinates descend", []uint32{7, 3}, 0, 2, false},
		{"fewer values than indices", []uint32{3, 7}, 0, 1, false},
		{"more values than indices", []uint32{3}, 0, 2, false},
		{"rows", []uint32{0, 3}, 3, 6, true},
		{"row beyond", []uint32{4}, 3, 3, false},
		{"largest row", []uint32{most}, 3, 3, false},
		{"rows twice", []uint32{1, 1}, 3, 6, false},
		{"rows descend", []uint32{3, 0}, 3, 6, false},
		{"half a row", []uint32{0, 3}, 3, 5, false},
		{"a row too many", []uint32{0, 3}, 3, 9, false},
		{"one row of all", []uint32{0}, 12, 12, true},
		{"rows that do not fit", []uint32{0}, 5, 5, false},
		{"rows longer than all", []uint32{0}, 24, 24, false},
		{"rows of less than nothing", []uint32{0}, -3, 0, false},
		{"least block", []uint32{0}, math.MinInt, 0, false},
		{"largest block", []uint32{0}, math.MaxInt, 12, false},
		{"rows whose length overflows", []uint32{0, 1}, math.MaxInt/2 + 1, 0, false}, // 2(2^62) is 0 modulo 2^63
	} {
		errs := map[string]error{
			"vector":   protocol.Vector{Index: c.index, Block: c.block, Value: make([]float64, c.listed)}.Validate(12),
			"integers": protocol.Integers{Index: c.index, Block: c.block, Value: make([]int64, c.listed)}.Validate(12),
		}
		if c.index != nil {
			errs["narrow"] = protocol.Integers{Index: c.index, Block: c.block, Narrow: make([]int32, c.listed)}.Validate(12)
		}
		for kind, err := range errs {
			if c.ok != (err == nil) || !c.ok && !errors.Is(err, protocol.ErrShape) {
				t.Errorf("%s, %s: %v", c.name, kind, err)
			}
			if err != nil && (strings.Contains(err.Error(), "7") || strings.Contains(err.Error(), fmt.Sprint(uint64(most)))) {
				t.Errorf("%s, %s: %v: it names an index", c.name, kind, err)
			}
		}
	}
	row := []float64{1, 2, 3}
	for name, v := range map[string]protocol.Vector{
		"dense":            {Factor: []float64{1}, Value: make([]float64, 12)},
		"factor missing":   {Index: []uint32{0, 1}, Block: 3, Factor: []float64{1}, Value: row},
		"factor too many":  {Index: []uint32{0}, Block: 3, Factor: []float64{1, 1}, Value: row},
		"half a row":       {Index: []uint32{0}, Block: 3, Factor: []float64{1}, Value: row[:2]},
		"rows written out": {Index: []uint32{0, 1}, Block: 3, Factor: []float64{1, 1}, Value: append(row, row...)},
		"a row, no block":  {Index: []uint32{0}, Factor: []float64{1}, Value: row},
		"row beyond":       {Index: []uint32{4}, Block: 3, Factor: []float64{1}, Value: row},
		"rows twice":       {Index: []uint32{1, 1}, Block: 3, Factor: []float64{1, 1}, Value: row},
		"largest block":    {Index: []uint32{0}, Block: math.MaxInt, Factor: []float64{1}, Value: row},
		"negative block":   {Index: []uint32{0}, Block: -3, Factor: []float64{1}, Value: row[:1]},
	} {
		if err := v.Validate(12); !errors.Is(err, protocol.ErrShape) {
			t.Errorf("multiples, %s: %v", name, err)
		}
	}
	for name, v := range map[string]protocol.Integers{
		"narrow and dense":    {Narrow: make([]int32, 12)},
		"narrow beside dense": {Narrow: []int32{1}, Value: make([]int64, 12)},
		"narrow and wide":     {Index: []uint32{0}, Narrow: []int32{1}, Value: []int64{1}},
	} {
		if err := v.Validate(12); !errors.Is(err, protocol.ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// In whatever form integers come, they are added where a plain loop over
// coordinates puts them, modulo 2^64.
func TestIntegersAddTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks, block := rapid.IntRange(1, 9).Draw(t, "blocks"), rapid.IntRange(1, 4).Draw(t, "block")
		narrow := rapid.Bool().Draw(t, "narrow")
		edge := rapid.SampledFrom([]int64{0, 1, -1, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64})
		v, dense := protocol.Integers{Index: []uint32{}}, protocol.Integers{Value: make([]int64, blocks*block)}
		if v.Block = block; block == 1 && rapid.Bool().Draw(t, "no block") {
			v.Block = 0
		}
		sum := rapid.SliceOfN(edge, blocks*block, blocks*block).Draw(t, "sum")
		want := slices.Clone(sum)
		for j := range blocks {
			if rapid.Bool().Draw(t, "skipped") {
				continue
			}
			v.Index = append(v.Index, uint32(j))
			for a := range block {
				x := edge.Draw(t, "value")
				if narrow {
					x = int64(int32(x))
					v.Narrow = append(v.Narrow, int32(x))
				} else {
					v.Value = append(v.Value, x)
				}
				dense.Value[j*block+a] = x
				want[j*block+a] += x
			}
		}
		for _, form := range []protocol.Integers{v, dense} {
			if err := form.Validate(blocks * block); err != nil {
				t.Fatal(err)
			}
			got := slices.Clone(sum)
			form.AddTo(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%+v (-want +got):\n%s", form, d)
			}
		}
	})
}

// Blocks of four have a loop of their own; it keeps within the sum.
func TestIntegersAddToStaysInside(t *testing.T) {
	for _, last := range []uint32{2, 3, math.MaxUint32} {
		v := protocol.Integers{Index: []uint32{0, last}, Block: 4, Narrow: make([]int32, 8)}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("block %d of 2 is added", last)
				}
			}()
			v.AddTo(make([]int64, 8))
		}()
	}
}
