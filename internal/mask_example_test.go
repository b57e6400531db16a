package internal_test

import (
	"crypto/rand"
	"fmt"

	"github.com/fedsim/fedsim/internal/secagg/mask"
)

// Two clients hide their values from the party that adds them up.
func Example_masks() {
	var secret [mask.SecretSize]byte // of X25519, the same on both sides
	if _, err := rand.Read(secret[:]); err != nil {
		fmt.Println(err)
		return
	}
	context := mask.Context{Round: 7}
	spec := mask.Spec{Name: "V", Width: 16, Len: 3}

	upload := func(integers []int64, sub bool) ([]byte, error) {
		v, err := mask.NewVector(spec.Width, spec.Len)
		if err != nil {
			return nil, err
		}
		if err = v.AddInts(integers); err != nil {
			return nil, err
		}
		stream, err := mask.NewStream(secret, mask.Pair, context, spec)
		if err != nil {
			return nil, err
		}
		defer stream.Wipe()
		err = mask.AddAll(v, []mask.Term{{Stream: stream, Sub: sub}})
		return v.AppendPacked(nil), err
	}
	sum, err := mask.NewVector(spec.Width, spec.Len)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, integers := range [][]int64{{1, -20, 300}, {1, 1, 1}} {
		packed, err := upload(integers, i == 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err = sum.AddPacked(packed); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(sum.AppendInts(nil))
	// Output: [2 -19 301]
}
