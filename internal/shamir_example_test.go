package internal_test

import (
	"crypto/rand"
	"fmt"

	"github.com/fedsim/fedsim/internal/secagg/shamir"
)

// Any two of three holders recover a secret.
func Example_shamir() {
	secret, err := shamir.NewSecret(rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	shares, err := shamir.Split(secret, 2, []shamir.Index{1, 2, 3}, rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}

	weights, err := shamir.NewLagrange(2, []shamir.Index{3, 1}) // holder 2 is gone
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := weights.Combine([]shamir.Share{shares[2], shares[0]})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(got.Equal(secret))

	_, err = shamir.NewLagrange(2, []shamir.Index{3})
	fmt.Println(err)
	// Output:
	// true
	// shamir: too few shares: 1 holders, and the threshold is 2
}
