// Package internal has only tests: of small packages below it, and of the table of packages in CONTRIBUTING.md.
package internal
