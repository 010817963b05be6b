/* The smallest honest payload: a static program that ends at once. */
int main(void)
{
	return 0;
}
