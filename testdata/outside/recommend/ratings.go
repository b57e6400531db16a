package main

import (
	"fmt"

	"github.com/fedsim/fedsim"
)

// ratings stands for a program's own: 400 users, 60 items, and a taste that half of the users share.
func ratings() (list []fedsim.Rating) {
	for u := range 400 {
		for j := range 60 {
			if (u*7+j*13)%5 < 2 {
				stars := 2 + (u+j)%2*2 + (u*j)%2
				list = append(list, fedsim.Rating{User: fmt.Sprint("user ", u), Item: fmt.Sprint("item ", j), Value: float64(stars)})
			}
		}
	}
	return list
}
