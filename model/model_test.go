package model_test

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/model"
)

func TestBroadcast(t *testing.T) {
	v := model.Wrap(2, 2, []float64{1, -2, 0.5, 3})
	// IEEE 754 of 32 bits, the least significant byte first.
	const want = "0000803f" + "000000c0" + "0000003f" + "00004040"
	if got := hex.EncodeToString(v.Encode()); got != want {
		t.Errorf("encoded as %s, want %s", got, want)
	}
	b, err := model.NewBroadcast(v.Encode(), 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Matrix().Data(); !slices.Equal(got, v.Data()) {
		t.Errorf("decoded %v", got)
	}
	if got := b.AppendRows([]float64{9}, []int32{1, 0}); !slices.Equal(got, []float64{9, 0.5, 3, v.Row(0)[0], v.Row(0)[1]}) {
		t.Errorf("rows 1 and 0 behind a 9 are %v", got)
	}
	if _, err := model.NewBroadcast(v.Encode()[1:], 2, 2); err == nil {
		t.Error("a broadcast of the wrong length was accepted")
	}
}

func TestMatrixRowsAndClone(t *testing.T) {
	m := model.Wrap(2, 3, []float64{1, 2, 3, 4, 5, 6})
	c := m.Clone()
	m.Row(1)[0] = 7
	if m.Data()[3] != 7 || c.Data()[3] != 4 {
		t.Errorf("a row is not the matrix's own, or a clone's is: %v, %v", m.Data(), c.Data())
	}
	if rows, cols := c.Dims(); rows != 2 || cols != 3 || c.Rows() != 2 || c.Cols() != 3 {
		t.Errorf("%d x %d, want 2 x 3", rows, cols)
	}
	if row := append(m.Row(0), 9); row[3] != 9 || m.Data()[3] != 7 {
		t.Error("appending to a row writes into the next")
	}
	defer func() {
		if recover() == nil {
			t.Error("five coordinates were taken for a matrix of 2 x 3")
		}
	}()
	model.Wrap(2, 3, make([]float64, 5))
}

// 2·1 + 3·(-1) = -1 and 2·0.5 + 3·2 = 7, by hand.
func TestFactors(t *testing.T) {
	f := &model.Factors{Users: model.Wrap(1, 2, []float64{2, 3}), Items: model.Wrap(2, 2, []float64{1, -1, 0.5, 2})}
	out := make([]float64, 2)
	f.Predict(0, []int32{1, 0}, out)
	if !slices.Equal(out, []float64{7, -1}) {
		t.Errorf("predicted %v, want [7 -1]", out)
	}
	m := model.OfFactors(f)
	if len(m.Matrices) != 2 || m.Matrices[0].Matrix != f.Items || m.Matrices[1].Matrix != f.Users {
		t.Errorf("matrices %v", m.Matrices)
	}
}
