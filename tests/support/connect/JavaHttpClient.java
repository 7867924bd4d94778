import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

/** Java's own HTTP client as Strimzi's operator uses it: by default it offers h2c with every call. */
public class JavaHttpClient {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(60)).build();
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = calls.readLine()) != null; ) {
            String[] call = line.split(" ", 3);
            HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0] + call[1]))
                .timeout(Duration.ofSeconds(120))
                .header("Content-Type", "application/json")
                .method(call[0], call[2].isEmpty()
                    ? HttpRequest.BodyPublishers.noBody()
                    : HttpRequest.BodyPublishers.ofString(call[2]))
                .build();
            HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.body().replace("\n", " "));
        }
    }
}
