//go:build unix

package admission

var GivenByRoot = givenByRoot
