package main

import _ "github.com/fedsim/fedsim/lab/command" // the verbs and algorithms of the lab
