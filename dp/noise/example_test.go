package noise_test

import (
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/fedsim/fedsim/dp/noise"
)

// keyed stands in for a stream of a client's own secret key, such as AES in
// counter mode. ChaCha8 with a known seed makes the example repeatable.
func keyed(client, purpose byte) io.Reader {
	return rand.NewChaCha8([32]byte{client, purpose})
}

// Three clients want noise of variance 600 in their sum, and one may be lost. All three arrive, so
// each takes a third of its noise back. The last client falls silent before it answers, and its
// whole noise stays.
func Example() {
	const (
		target  = 600
		fewest  = 2 // clients that must remain
		arrived = 3
	)
	before, err := noise.NewSkellam(target / fewest) // variance 300 a client
	if err != nil {
		fmt.Println(err)
		return
	}

	// First round: data plus noise. (Masks hide everything except the sum.)
	data := [arrived][4]int64{{10, 0, 1000, 5}, {20, 0, 1000, 5}, {30, 0, 1000, 5}}
	var sum [4]int64
	for client, vector := range data {
		if err = before.Add(vector[:], noise.NewBits(keyed(byte(client), 'n'))); err != nil {
			fmt.Println(err)
			return
		}
		for i, v := range vector {
			sum[i] += v
		}
	}
	fmt.Println("sum with all noise:", sum)

	// Second round: keep 2/3 of the noise, variance 200 a client.
	thinning, err := noise.NewThinning(before.Variance()/2, fewest, arrived)
	if err != nil {
		fmt.Println(err)
		return
	}
	for client := range arrived - 1 {
		var removal [4]int64
		same, another := keyed(byte(client), 'n'), keyed(byte(client), 't')
		if err = before.Removal(removal[:], noise.NewBits(same), noise.NewBits(another), thinning); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("removal of client %d: %v\n", client, removal)
		for i, v := range removal {
			sum[i] += v
		}
	}
	fmt.Println("released:", sum)
	fmt.Println("variance: 200 + 200 + 300, at least the 600 asked for")
	// Output:
	// sum with all noise: [135 9 2984 26]
	// removal of client 0: [-16 -8 6 -13]
	// removal of client 1: [2 16 7 -10]
	// released: [121 17 2997 3]
	// variance: 200 + 200 + 300, at least the 600 asked for
}

func ExamplePoisson_Draw() {
	p, err := noise.NewPoisson(7.5)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := noise.NewBits(keyed(0, 'p'))
	sum := uint64(0)
	for range 100_000 {
		sum += p.Draw(b)
	}
	if err = b.Err(); err != nil { // draws of a failed stream are meaningless
		fmt.Println(err)
		return
	}
	fmt.Printf("%.1f\n", float64(sum)/100_000)
	// Output: 7.5
}

func ExampleThinning_Draw() {
	t, err := noise.NewThinning(7.5, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := noise.NewBits(keyed(0, 't'))
	kept := uint64(0)
	for range 100_000 {
		kept += t.Draw(9, b)
	}
	if err = b.Err(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.1f of 9\n", float64(kept)/100_000)
	// Output: 6.0 of 9
}

// A party adds noise to its gradients in every local step. The keyed stream lives
// as long as the training does.
func ExampleGaussian_Add() {
	g, err := noise.NewGaussian(0.5)
	if err != nil {
		fmt.Println(err)
		return
	}
	b := noise.NewBits(keyed(0, 'g'))
	gradient := [4]float64{1, 0, -1, 100}
	for range 2 {
		noisy := gradient
		if err = g.Add(noisy[:], b); err != nil { // noisy is cleared
			fmt.Println(err)
			return
		}
		fmt.Printf("%.3f\n", noisy)
	}
	// Output:
	// [0.928 0.098 -0.157 99.815]
	// [0.696 0.432 -1.046 99.397]
}
