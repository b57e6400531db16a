// Package disktest is for tests: it tries what writes files on a disk that is full, on one
// that fails in the middle of a file and in a folder that is read-only. It does so on Linux
// alone, and is for tests that do not run in parallel: the limit that makes a disk full is
// one of the whole process.
package disktest
