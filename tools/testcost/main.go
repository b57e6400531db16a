// Command testcost is the loop to whose processor time .ci/cost relates the time of the tests.
package main

import "slices"

// main sorts and counts numbers: arithmetic, branches and memory, as tests have them.
func main() {
	numbers, counts := make([]uint64, 1<<20), make(map[uint64]int)
	x := uint64(1)
	for range 4 {
		for i := range numbers {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			numbers[i] = x
			counts[x%4096]++
		}
		slices.Sort(numbers)
	}
}
