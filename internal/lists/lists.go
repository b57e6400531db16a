// Package lists makes one list of another.
package lists

// Map returns what a function makes of each element of a list, in their order. Of an empty list it is empty, and never nil.
func Map[X, Y any](list []X, f func(X) Y) []Y {
	all := make([]Y, len(list))
	for i, x := range list {
		all[i] = f(x)
	}
	return all
}
