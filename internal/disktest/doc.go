// Package disktest tests code that writes files. It tries the code on a full disk, on a disk that
// fails in the middle of a file, and in a read-only folder. It runs on Linux alone, in tests that
// do not run in parallel: the limit that makes a disk full applies to the whole process.
package disktest
