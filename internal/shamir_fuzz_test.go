package internal_test

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"testing"

	"github.com/fedsim/fedsim/internal/secagg/shamir"
)

// FuzzCombine takes records of 4 bytes of a holder and 32 of its share, as they might be revealed.
// Weights are computed exactly if the holders are distinct, not 0 and as many as the threshold.
// Combined scalars give the value at 0 of the oracle's polynomial through them. Splitting that
// value among the holders again gives shares that combine to it.
func FuzzCombine(f *testing.F) {
	const size = 4 + shamir.Size
	f.Fuzz(func(t *testing.T, threshold int8, records []byte) {
		var holders []shamir.Index
		var shares []shamir.Share
		var x, y []*big.Int
		seen := map[shamir.Index]bool{0: true}
		distinct, scalars := true, true
		for len(records) >= size && len(holders) < 12 {
			h := shamir.Index(binary.LittleEndian.Uint32(records))
			s, err := shamir.ParseShare(h, records[4:size])
			distinct, scalars = distinct && !seen[h], scalars && err == nil
			holders, shares, seen[h] = append(holders, h), append(shares, s), true
			x, y = append(x, big.NewInt(int64(h))), append(y, number(records[4:size]))
			records = records[size:]
		}
		want := distinct && threshold >= 1 && int(threshold) <= len(holders)
		weights, err := shamir.NewLagrange(int(threshold), holders)
		if (err == nil) != want {
			t.Fatalf("threshold %d, holders %d: error %v", threshold, holders, err)
		}
		random := bytes.Repeat([]byte{7}, 64*(max(int(threshold), 1)-1))
		if _, err = shamir.Split(shamir.Secret{}, int(threshold), holders, bytes.NewReader(random)); (err == nil) != want {
			t.Fatalf("threshold %d, holders %d: split with error %v", threshold, holders, err)
		}
		if !want || !scalars {
			return
		}
		secret, err := weights.Combine(shares)
		if err != nil {
			t.Fatal(err)
		}
		if got, oracle := secret.Bytes(), encode(through(x, y)[0], shamir.Size); !bytes.Equal(got[:], oracle) {
			t.Fatalf("holders %d: combined to %x, want %x", holders, got, oracle)
		}
		if shares, err = shamir.Split(secret, int(threshold), holders, bytes.NewReader(random)); err != nil {
			t.Fatal(err)
		}
		if again, err := weights.Combine(shares); err != nil || !again.Equal(secret) {
			t.Fatalf("holders %d: split again and combined to %x, error %v, want %x", holders, again.Bytes(), err, secret.Bytes())
		}
	})
}
