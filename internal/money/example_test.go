package money_test

import (
	"fmt"

	"paidonce/internal/money"
)

func ExampleParse() {
	for _, in := range []struct {
		decimal  string
		currency money.Currency
	}{
		{"19.99", "usd"},
		{"100", "jpy"},
		{"18.600", "kwd"},
		{"19.999", "usd"},
	} {
		a, err := money.Parse(in.decimal, in.currency)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(a.Minor, a.Currency)
	}
	// Output:
	// 1999 usd
	// 100 jpy
	// 18600 kwd
	// parsing amount "19.999": more decimals than the currency has (USD has 2)
}

func ExampleAmount_Format() {
	a := money.Amount{Minor: 123456, Currency: "usd"}
	fmt.Println(a)
	fmt.Println(a.Format("en"))
	fmt.Println(a.Format("en-AU"))
	// Output:
	// 1234.56 USD
	// $1,234.56
	// US$1,234.56
}
