package scenario

// every returns each step-th of the numbers below n, from the first one on. Objects that are busy lie among those that are not: if they were
// neighbours in the file, a commit of many would write few pages.
func every(step, n int) []int {
	numbers := make([]int, 0, (n+step-1)/step)
	for i := 0; i < n; i += step {
		numbers = append(numbers, i)
	}
	return numbers
}

// last is the last of the numbers.
func last(numbers []int) int { return numbers[len(numbers)-1] }
